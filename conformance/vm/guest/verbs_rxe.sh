# Linerate on the kernel's software RoCEv2, by libibverbs.
. ./verbs_lib.sh

need load rdma_modules rdma_rxe crc32_generic
need link rdma_link rxe0 rxe
verbs
