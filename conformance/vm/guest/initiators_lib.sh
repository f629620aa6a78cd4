# Linux' initiators over RDMA, whatever the adapter: NVMe/RDMA and iSER against Linerate's portals for it.

. ./lib.sh
. ./rdma_lib.sh
. ./iscsi_lib.sh
. ./nvme_lib.sh

CUT_SECONDS=14

# over_transport TRANSPORT: the initiators' transport, by the words of the session there is.
over_transport() { iscsiadm -m session -P 1 | tee /dev/stderr | grep -q "Iface Transport: $1"; }

# kernel_said WORDS: the kernel's log has them.
kernel_said() { dmesg | grep -F "$1"; }

# through_a_cut DEVICE: the link is down for a while under verified writes, which go on afterwards and see no error.
through_a_cut() {
    fio_verify "$1" --bs=16k --size=8m --rate_iops=40 &
    ask cut "$CUT_SECONDS" && wait $!
}

# nvme_over_rdma PORT: discovery, a file system, verified I/O, a reset and a cut, on each volume; and a reservation that TCP's host hears of.
nvme_over_rdma() {
    local volume
    NVME_TRANSPORT=rdma NVME_PORT=$1
    need nvme/discover nvme_discover
    for volume in ram file; do
        need "nvme/$volume/discovered" grep -q "$SUBSYSTEM_PREFIX:$volume" <(nvme_discover)
        need "nvme/$volume/connect" connect "$volume" --keep-alive-tmo=5 --reconnect-delay=2 --ctrl-loss-tmo=120
        check "nvme/$volume/transport" grep -qx rdma "/sys/class/nvme/$controller/transport"
        check "nvme/$volume/id-ctrl" nvme id-ctrl "/dev/$controller"
        use_disk "nvme/$volume" "$disk"
        check "nvme/$volume/large" fio_verify "$disk" --bs=256k --size=8m
        check "nvme/$volume/disconnect" disconnect "$volume"
    done
    need nvme/again connect ram --keep-alive-tmo=5 --reconnect-delay=2 --ctrl-loss-tmo=120
    check nvme/reset reset_under_io
    check nvme/cut through_a_cut "$disk"
    check nvme/reconnected kernel_said "Successfully reconnected"
    check nvme/after-the-cut fio_verify "$disk" --bs=4k --size=2m
    check nvme/disconnect disconnect ram
}

# The host resets the controller while it writes: it connects anew and repeats what was lost, and fio sees nothing of it.
reset_under_io() {
    fio_verify "$disk" --bs=16k --size=4m &
    nvme reset "/dev/$controller" && wait $!
}

# Linux' iSER initiator sometimes takes the answer to a login and sends nothing more (one discovery of 388 under emulation; a capture shows the answer
# acknowledged and no text request), and iscsiadm crashes when it tries again by itself. So it gives up early, and a new one asks.
iser_discover() { persistently discover; }

# iser PORTAL: discovery, a file system, verified I/O and a cut.
iser() {
    local volume
    ISCSI_INTERFACE=iser ISCSI_PORTAL=$1
    # A link that is cut is noticed by pings that nobody answers.
    sed -i \
        -e 's/^\(node.conn\[0\].timeo.noop_out_interval\) *=.*/\1 = 4/' \
        -e 's/^\(node.conn\[0\].timeo.noop_out_timeout\) *=.*/\1 = 8/' /etc/iscsi/iscsid.conf
    printf '%s\n' 'discovery.sendtargets.reopen_max = 0' 'discovery.sendtargets.timeo.active_timeout = 10' >> /etc/iscsi/iscsid.conf
    need iser/discover iser_discover
    for volume in ram file; do
        need "iser/$volume/login" login "$volume"
        check "iser/$volume/transport" over_transport iser
        check "iser/$volume/inquiry" sg_inq "$disk"
        use_disk "iser/$volume" "$disk"
        check "iser/$volume/large" fio_verify "$disk" --bs=256k --size=8m
        check "iser/$volume/logout" logout "$volume"
    done
    need iser/again login ram
    check iser/cut through_a_cut "$disk"
    check iser/noticed kernel_said "detected conn error"
    check iser/after-the-cut fio_verify "$disk" --bs=4k --size=2m
    check iser/logout logout ram
}
