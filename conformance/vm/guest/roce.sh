# Linux' initiators over its software RoCE, `rdma_rxe`: as usual, and over a network that loses one packet in a hundred, each way.
. ./initiators_lib.sh

# sessions_lost: how many the kernel has noticed.
sessions_lost() { dmesg | grep -c 'detected conn error'; }

# keeps_its_session COMMAND…: the command succeeds, and no session is lost meanwhile.
keeps_its_session() {
    local before
    before=$(sessions_lost)
    "$@" && [ "$(sessions_lost)" = "$before" ]
}

# iser_through_losses: one command at a time goes through on one session. Of several at a time one that is lost ends the queue pair, which is rxe's doing
# (docs/decisions/0029): the session is lost, comes back, and repeats what it had not been answered, so this is little.
iser_through_losses() {
    local began=$SECONDS
    need loss/iser/login login ram
    check loss/iser/large keeps_its_session fio_verify "$disk" --bs=256k --size=4m --iodepth=1
    check loss/iser/small keeps_its_session fio_verify "$disk" --bs=4k --size=1m --iodepth=1
    check loss/iser/several fio_verify "$disk" --bs=4k --size=256k
    check loss/iser/logout logout ram
    echo "# saw iSER through losses take $((SECONDS - began)) s; sessions lost so far, with those of the cut: $(sessions_lost)"
}

start_nvme
start_iscsid
need load rdma_modules rdma_rxe crc32_generic nvme_rdma ib_iser
need link rdma_link rxe0 rxe
nvme_over_rdma "$ROCE_NVME_PORT"
iser "$ROCE_ISCSI_PORTAL"

need loss/begins ask lose 1
for volume in ram file; do
    need "loss/$volume/connect" connect "$volume" --keep-alive-tmo=5 --reconnect-delay=2 --ctrl-loss-tmo=120
    use_disk "loss/$volume" "$disk"
    check "loss/$volume/large" fio_verify "$disk" --bs=256k --size=8m
    check "loss/$volume/disconnect" disconnect "$volume"
done
echo "# saw NVMe reconnect so far, with the reset and the cut: $(dmesg | grep -c 'Successfully reconnected')"
iser_through_losses
need loss/ends ask lose 0
check unlink rdma link delete rxe0
