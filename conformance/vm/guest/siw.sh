# Linux' software iWARP with itself: are the modules that were built for this kernel right, and does RDMA work in the guest at all?
. ./lib.sh
. ./rdma_lib.sh

for module in siw siw_strict; do
    need "$module/load" rdma_modules "$module"
    need "$module/link" rdma_link siw0 siw
    rping_here "$module"
    check "$module/unlink" rdma link delete siw0
    check "$module/unload" rmmod "$module"
done
