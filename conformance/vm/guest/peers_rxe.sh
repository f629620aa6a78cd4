# LIO's iSER and nvmet over RDMA, by the kernel's software RoCEv2.

. ./lib.sh
. ./rdma_lib.sh
. ./peers_lib.sh

need load rdma_modules rdma_rxe crc32_generic
need link rdma_link rxe0 rxe
target_modules ib_isert nvmet_rdma
lio_backstores
LIO_TRANSPORT=iser
need target-memory target memory rd_mcp_0/memory
need target-file target file fileio_0/file
need target-block target block iblock_0/block ImmediateData=No FirstBurstLength=4096 MaxBurstLength=8192
need chap chap file

nvmet_port rdma "$PEER_ADDRESS" "$NVME_PORT"
subsystems
serve
subsystems_gone
