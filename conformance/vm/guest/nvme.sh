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
    check "$1/show-regs" nvme show-regs "/dev/$controller"
}

start_nvme
need discover nvme_discover
for volume in ram file; do
    need $volume/discovered grep -q "$SUBSYSTEM_PREFIX:$volume" <(nvme_discover)
    need $volume/connect connect $volume --hdr-digest --data-digest
    identify $volume
    use_disk $volume "$disk"
    check $volume/flush nvme flush "$disk"
    check $volume/reset nvme reset "/dev/$controller"
    check $volume/after-reset same /tmp/original "$disk"
    check $volume/disconnect disconnect $volume
done

need plain/connect connect ram
check plain/fio fio_verify "$disk" --bs=16k --size=4m
check plain/disconnect disconnect ram
