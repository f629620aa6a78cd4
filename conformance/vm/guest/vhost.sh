# Disks that `linerate attach --as vhost-user` serves in the guest's own memory: what a user does with them, on the kernel's virtio driver, with split and with packed rings.
. ./lib.sh

need driver modprobe virtio_blk

# The adapter is killed while fio writes to both disks, and another goes on with what was under way: fio sees nothing of it.
killed_under_load() {
    local time disk loads=()
    for disk in /dev/vda /dev/vdb; do
        fio_verify $disk --bs=16k --size=16m --rate_iops=,200 &
        loads+=($!)
    done
    for time in 1 2 3; do
        sleep 1
        ask kill adapter || return
    done
    kill -0 "${loads[@]}" || { echo "the load was over before"; return 1; }
    wait "${loads[0]}" && wait "${loads[1]}"
}

for kind in split packed; do
    if [ $kind = split ]; then disk=/dev/vda; else disk=/dev/vdb; fi
    need $kind/device eventually test -b $disk
    check $kind/size test "$(blockdev --getsize64 $disk)" = $((64 << 20))
    check $kind/writable test "$(blockdev --getro $disk)" = 0
    check $kind/queues test "$(ls /sys/block/${disk#/dev/}/mq | wc -l)" -ge 2
    check $kind/cache grep -q 'write back' /sys/block/${disk#/dev/}/queue/write_cache
    # Bit 34 of the features.
    check $kind/rings test "$(cut -c35 /sys/block/${disk#/dev/}/device/features)" = $([ $kind = packed ] && echo 1 || echo 0)
    use_disk $kind $disk
    check $kind/parallel fio_verify $disk --bs=64k --size=16m --numjobs=1 --iodepth=32
    check $kind/flush fio --name=flush --filename=$disk --rw=write --bs=4k --size=256k --fsync=1 --minimal --output=/tmp/flush
done
check killed-under-load killed_under_load
check split/after fio_verify /dev/vda --bs=4k --size=2m
check packed/after fio_verify /dev/vdb --bs=4k --size=2m
