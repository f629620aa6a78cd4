# nvmet over RDMA, by the kernel's software RoCEv2.

. ./lib.sh
. ./rdma_lib.sh
. ./peers_lib.sh

need load rdma_modules rdma_rxe crc32_generic
need link rdma_link rxe0 rxe
target_modules nvmet_rdma
need null-disk null_disk 0
nvmet_port rdma "$PEER_ADDRESS" "$NVME_PORT"
subsystems
serve
subsystems_gone
check unlink rdma link delete rxe0
