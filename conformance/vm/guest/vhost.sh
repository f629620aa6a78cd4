# A disk that `linerate attach --as vhost-user` serves in the guest's own memory: what a user does with it, on the kernel's virtio driver.
. ./lib.sh

disk=/dev/vda

need driver modprobe virtio_blk
need device eventually test -b $disk
check size test "$(blockdev --getsize64 $disk)" = $((64 << 20))
check writable test "$(blockdev --getro $disk)" = 0
check queues test "$(ls /sys/block/vda/mq | wc -l)" -ge 2
check cache grep -q 'write back' /sys/block/vda/queue/write_cache
use_disk disk $disk
check parallel fio_verify $disk --bs=64k --size=16m --numjobs=1 --iodepth=32
check flush fio --name=flush --filename=$disk --rw=write --bs=4k --size=256k --fsync=1 --minimal --output=/tmp/flush
