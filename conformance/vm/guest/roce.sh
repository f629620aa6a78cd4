# Linux' initiators over its software RoCE, `rdma_rxe`: as usual, and NVMe over a network that loses one packet in a hundred, each way.
. ./initiators_lib.sh

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
need loss/ends ask lose 0
check unlink rdma link delete rxe0
