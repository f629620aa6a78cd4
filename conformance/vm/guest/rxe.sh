# Linux' software RoCEv2 with itself: does it work in the guest at all?
. ./lib.sh
. ./rdma_lib.sh

need load rdma_modules rdma_rxe crc32_generic
need link rdma_link rxe0 rxe
rping_here rping
check unlink rdma link delete rxe0
