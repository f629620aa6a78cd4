# File systems over the disk, with every write and flush logged by dm-log-writes. The server is killed under the load and after it. Then the log is
# replayed onto a blank disk, and at points where everything before is settled the file system has to be whole, with all that was synced. And
# the disk itself has to hold what the log says: every write that the server acknowledged, through both kills.

. ./lib.sh
. ./iscsi_lib.sh
. ./nvme_lib.sh

export DM_DISABLE_UDEV=1 # there is no udev, so that the device mapper makes its nodes itself
guest=(/linerate/host/loader --library-path /linerate/host /linerate/host/vm-guest)
operations=60
points=50
sectors=$((DATA_MIB << 11))

attach_iscsi() {
    login "$1" || return
    echo 300 > "/sys/block/${disk#/dev/}/device/timeout"
}
attach_nvme() { connect "$1" --reconnect-delay=1; }
detach_iscsi() { logout "$1"; }
detach_nvme() { disconnect "$1"; }

make_ext4() { mke2fs -q -F -t ext4 -E nodiscard "$1"; }
make_xfs() { mkfs.xfs -q -f -K --unsupported "$1"; }

# The server dies in the middle of the load, which sees nothing of it.
load_through_kill() {
    "${guest[@]}" load /mnt "$SEED" $operations logged > /tmp/load 2>&1 &
    eventually test -e /mnt/f12 && kill -0 $! && ask kill linerate && wait $! && return
    cat /tmp/load
    return 1
}

# blank NUMBER: a disk of zeros to replay onto.
blank() { dd if=/dev/zero of="/dev/ram$1" bs=1M count="$DATA_MIB" oflag=direct status=none; }

# replayed NUMBER POINTS [OPTION…]: the log, replayed onto that disk.
replayed() { "${guest[@]}" replay "$log" "/dev/ram$1" "$2" "$SEED" "${@:3}" -- bash crash_check.sh "$kind" "/dev/ram$1" "$SEED"; }

# The log without one write of a file's content is found to be wrong, and for that reason.
found_without() {
    replayed 1 1 --drop "$1" > /tmp/found 2>&1
    cat /tmp/found
    grep -q '^after entry' /tmp/found && grep -q 'lost: .*that were synced' /tmp/found
}

equal() { dd if="$1" bs=1M count="$DATA_MIB" iflag=direct status=none | cmp -n $((DATA_MIB << 20)) - "$2"; }

start_iscsid
start_nvme
need discovery discover
modprobe -a dm_mod dm_log_writes dm_snapshot xfs
need brd modprobe brd rd_nr=3 rd_size=$((DATA_MIB << 10))
mkdir -p /tmp/check
for protocol in iscsi nvme; do
    for kind in ext4 xfs; do
        name=$protocol-$kind
        need $name/log attach_$protocol $name-log
        log=$disk
        need $name/data attach_$protocol $name
        data=$disk
        need $name/logged dmsetup create logged --table "0 $sectors log-writes $data $log"
        need $name/make make_$kind /dev/mapper/logged
        need $name/made dmsetup message logged 0 mark made
        need $name/mount mount -t $kind /dev/mapper/logged /mnt
        check $name/load-through-kill load_through_kill
        check $name/unmount umount /mnt
        check $name/closed dmsetup remove logged
        check $name/kill ask kill linerate
        blank 0
        check $name/every-settled-state replayed 0 $points
        check $name/disk-holds-the-log equal "$data" /dev/ram0
        blank 1
        check $name/a-missing-write-is-found found_without "$(awk '/^magic/ { print $2 }' /tmp/load)"
        check $name/detach-log detach_$protocol $name-log
        check $name/detach detach_$protocol $name
    done
done
