# Linux' initiators over its software iWARP as it is: no CRC, no peer-to-peer set-up.
. ./initiators_lib.sh

start_nvme
start_iscsid
need load rdma_modules siw nvme_rdma ib_iser
need link rdma_link siw0 siw
nvme_over_rdma "$IWARP_NVME_PORT"
iser "$IWARP_ISCSI_PORTAL"
check unlink rdma link delete siw0
check unload rmmod siw
