# crash_check.sh KIND DISK SEED DONE: whether a file system that was cut off here is whole, and holds what operations up to DONE have synced. What the
# journal's replay writes goes beside the disk.

kind=$1 disk=$2 seed=$3 synced=$4
fail() {
    echo "$1"
    umount /tmp/check 2> /dev/null
    dmsetup remove check
    exit 1
}

# The disk was written through its cache, the snapshot goes past it.
blockdev --flushbufs "$disk"
dmsetup create check --table "0 $(blockdev --getsz "$disk") snapshot $disk /dev/ram2 N 8" || exit 1
options=
[ "$kind" = xfs ] && options=nouuid
mount -t "$kind" ${options:+-o $options} /dev/mapper/check /tmp/check || fail "it cannot be mounted"
/linerate/host/loader --library-path /linerate/host /linerate/host/vm-guest verify /tmp/check "$seed" "$synced" || fail "what was synced is not there"
umount /tmp/check || fail "it cannot be unmounted"
if [ "$kind" = xfs ]; then
    xfs_repair -n /dev/mapper/check > /tmp/repair 2>&1 || fail "$(cat /tmp/repair)"
else
    e2fsck -fn /dev/mapper/check > /tmp/repair 2>&1 || fail "$(cat /tmp/repair)"
fi
dmsetup remove check
