# What the scripts share. A script sources this first; each `check` is one test result.

# check NAME COMMAND…: the result is the command's exit status; what it prints is the log.
check() {
    local name=$1 status
    shift
    echo "+ $*"
    "$@"
    status=$?
    if [ $status = 0 ]; then
        echo "ok $name"
    else
        echo "not ok $name exit status $status of: $*"
        dmesg | tail -n 15
    fi
    return $status
}

# need NAME COMMAND…: a check without which the rest of the script makes no sense.
need() { check "$@" || exit 1; }

# The command is refused.
refused() { ! "$@"; }

# eventually COMMAND…: asks again until the command succeeds; gives up after more than the minute that an NFS client may keep attributes, with what it said last.
eventually() {
    local try
    for try in $(seq 700); do
        "$@" > /tmp/eventually 2>&1 && return
        sleep 0.1
    done
    echo "still not: $*"
    cat /tmp/eventually
    return 1
}

# persistently COMMAND…: three attempts, for what a lost packet may make fail.
persistently() {
    local attempt
    for attempt in 1 2 3; do
        "$@" && return
        echo "attempt $attempt failed: $*"
    done
    return 1
}

# ask WORDS: the harness does something to the servers or to the network, and says when that is done.
ask() {
    local said
    stty -echo < /dev/ttyS1
    echo "# ask $*"
    read -r said < /dev/ttyS1
    [ "$said" = done ] && return
    echo "$said"
    return 1
}

drop_caches() { echo 3 > /proc/sys/vm/drop_caches; }

random_file() { dd if=/dev/urandom of="$1" bs=1M count="$2" status=none; }

# same FILE DEVICE: the device begins with the file's bytes.
same() { dd if="$2" bs=1M count="$(($(stat -c %s "$1") >> 20))" iflag=direct status=none | cmp - "$1"; }

# zeros DEVICE MEBIBYTES: the device begins with so many zeros.
zeros() { dd if="$1" bs=1M count="$2" iflag=direct status=none | cmp -n "$(($2 << 20))" - /dev/zero; }

# fio_verify FILE [OPTION…]: random writes, several at a time, then read back against their checksums.
fio_verify() {
    local file=$1
    shift
    fio --name=verify --filename="$file" --ioengine=libaio --direct=1 --iodepth=8 --rw=randwrite \
        --verify=crc32c --verify_fatal=1 --minimal "$@" > /tmp/fio 2>&1 && return
    cat /tmp/fio
    return 1
}

# use_disk PREFIX DEVICE: what a user does with a disk, and what must hold. Leaves the device unmounted.
use_disk() {
    local name=$1 disk=$2 status
    check "$name/mkfs" mke2fs -q -F -t ext4 "$disk" || return
    check "$name/mount" mount -t ext4 "$disk" /mnt || return
    check "$name/fio-file" fio_verify /mnt/fio --bs=64k --size=8m
    random_file /tmp/original 8
    check "$name/copy" cp /tmp/original /mnt/copy
    sync
    check "$name/unmount" umount /mnt
    check "$name/fsck" e2fsck -fn "$disk"
    drop_caches
    check "$name/mount-again" mount -t ext4 -o ro "$disk" /mnt
    check "$name/compare" cmp /tmp/original /mnt/copy
    check "$name/unmount-again" umount /mnt
    check "$name/fio-device" fio_verify "$disk" --bs=4k --size=4m
    check "$name/discard" blkdiscard -f "$disk"
    check "$name/write" dd if=/tmp/original of="$disk" bs=1M oflag=direct status=none
    check "$name/read" same /tmp/original "$disk"
    check "$name/zero" blkdiscard -f -z -o 0 -l 4M "$disk"
    check "$name/zeros" zeros "$disk" 4
}
