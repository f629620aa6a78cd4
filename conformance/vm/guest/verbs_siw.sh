# Linerate on the kernel's software iWARP, by libibverbs: the build whose faults as a target are mended.
. ./verbs_lib.sh

need load rdma_modules siw_target
need link rdma_link siw0 siw
# siw serves a read of a region that is registered for writing alone, and keeps the Terminates that it gets to itself.
verbs no_access_without_the_right untold-reasons
