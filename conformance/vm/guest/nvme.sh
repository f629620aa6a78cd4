# Linux' NVMe/TCP host: discovery, then each volume with both digests and two I/O queues, and once without digests.

. ./lib.sh
. ./nvme_lib.sh

# identify VOLUME: what the NVMe host and its tools ask a controller and a namespace.
identify() {
    check "$1/queues" test "$(cat "/sys/class/nvme/$controller/queue_count")" = 3 # with the admin queue
    check "$1/id-ctrl" nvme id-ctrl "/dev/$controller"
    check "$1/id-ns" nvme id-ns "$disk"
    check "$1/ns-descs" nvme ns-descs "$disk"
    check "$1/list-ns" nvme list-ns "/dev/$controller"
    check "$1/smart-log" nvme smart-log "/dev/$controller"
    check "$1/error-log" nvme error-log "/dev/$controller"
    check "$1/effects-log" nvme effects-log "/dev/$controller"
    check "$1/fw-log" nvme fw-log "/dev/$controller"
    check "$1/get-property" nvme get-property --offset=0x8 "/dev/$controller" # VS, the version
    check "$1/command-sets" all_command_sets
    check "$1/capabilities" nvme get-property --offset=0x0 "/dev/$controller"
}

# CC: the host has enabled all I/O command sets (110b), and is to go on with it: Linux does where CAP offers that.
all_command_sets() { nvme get-property --offset=0x14 "/dev/$controller" | tee /dev/stderr | grep -qi "value: 460061"; }

# The host resets the controller while it writes: it connects anew and repeats what was lost, and fio sees nothing of it.
reset_under_io() {
    fio_verify "$disk" --bs=16k --size=4m &
    nvme reset "/dev/$controller" && wait $!
}

start_nvme
need discover nvme_discover
for volume in ram file; do
    need $volume/discovered grep -q "$SUBSYSTEM_PREFIX:$volume" <(nvme_discover)
    need $volume/connect connect $volume --hdr-digest --data-digest
    identify $volume
    use_disk $volume "$disk"
    check $volume/flush nvme flush "$disk"
    check $volume/reset-under-io reset_under_io
    check $volume/disconnect disconnect $volume
done

# The log page of a thousand subsystems is longer than 1 MiB.
many() { [ "$(NVME_PORT=$MANY_NVME_PORT nvme_discover | grep -c "^subnqn: *$SUBSYSTEM_PREFIX:many-")" = "$MANY" ]; }
[ -z "${MANY:-}" ] || check many/discovered many

need plain/connect connect ram
check plain/fio fio_verify "$disk" --bs=16k --size=4m
check plain/disconnect disconnect ram
