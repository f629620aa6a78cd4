# A volume as a block device of the guest's own kernel, by `linerate attach --as ublk`: what a user does with it, and with the adapter killed under load.

. ./lib.sh

disk=/dev/ublkb0
nvme_url=nvme+tcp://$NVME_ADDRESS:$NVME_PORT/$SUBSYSTEM_PREFIX:ram/1
iscsi_url=iscsi://$ISCSI_PORTAL/$TARGET_PREFIX:file/0

# The machine's own program, with the machine's own libraries. Started as itself, so that a signal reaches it.
linerate=(/linerate/host/loader --library-path /linerate/host /linerate/host/linerate)

# attach URL: starts the adapter and waits for the device.
attach() {
    rm -f /tmp/attached
    "${linerate[@]}" attach "$1" $disk --as ublk --ready-file /tmp/attached > /tmp/adapter 2>&1 &
    adapter=$!
    eventually test -e /tmp/attached -o ! -d /proc/$adapter && test -e /tmp/attached && return
    cat /tmp/adapter
    return 1
}

# detach: the adapter ends well, and the device is gone.
detach() {
    kill $adapter && wait $adapter && [ ! -e $disk ] && return
    cat /tmp/adapter
    return 1
}

# refuses WORDS COMMAND…: the adapter refuses, and says so.
refuses() {
    "${linerate[@]}" attach "${@:2}" --as ublk > /tmp/refused 2>&1 && return 1
    cat /tmp/refused
    grep -q "$1" /tmp/refused
}

begun() { [ "$(awk '{ print $5 }' /sys/block/ublkb0/stat)" -gt "$1" ]; }

# The adapter is killed while fio writes, and another takes the device over: fio sees nothing of it.
killed_under_load() {
    local written load
    written=$(awk '{ print $5 }' /sys/block/ublkb0/stat)
    fio_verify $disk --bs=16k --size=16m --rate_iops=,400 &
    load=$!
    eventually begun $((written + 100)) && kill -0 $load && kill -9 $adapter || return
    wait $adapter
    attach "$1" && wait $load
}

need no-driver refuses 'modprobe ublk_drv' "$nvme_url" $disk
need driver modprobe ublk_drv
modprobe -a ext4 crc32c_generic
for protocol in nvme iscsi; do
    if [ $protocol = nvme ]; then cache='write through'; else cache='write back'; fi
    url=${protocol}_url
    need $protocol/attach attach "${!url}"
    check $protocol/size test "$(blockdev --getsize64 $disk)" = $((256 << 20))
    check $protocol/cache grep -q "$cache" /sys/block/ublkb0/queue/write_cache
    use_disk $protocol $disk
    check $protocol/in-use refuses 'serves it' "${!url}" $disk
    check $protocol/killed-under-load killed_under_load "${!url}"
    random_file /tmp/original 8
    check $protocol/write dd if=/tmp/original of=$disk bs=1M oflag=direct conv=fsync status=none
    check $protocol/detach detach
    need $protocol/attach-again attach "${!url}"
    check $protocol/compare same /tmp/original $disk
    check $protocol/detach-again detach
done

need leave attach "$nvme_url"
kill -9 $adapter
wait $adapter
check another-volume refuses 'another volume' "$iscsi_url" $disk
need take-back attach "$nvme_url"
check last-detach detach
