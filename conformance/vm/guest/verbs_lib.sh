# Linerate in the guest on the guest's own adapter, by libibverbs: what the scripts of both adapters share.

. ./lib.sh
. ./rdma_lib.sh
. ./iscsi_lib.sh
. ./nvme_lib.sh
. ./peers_lib.sh
. ./nfs_lib.sh

# The machine's own programs, with the machine's own C library; libibverbs and librdmacm are the guest's.
linerate=(/linerate/host/loader --library-path /linerate/host /linerate/host/linerate)
suite=(/linerate/host/loader --library-path /linerate/host /linerate/host/verbs-contract)
volume_suite=(/linerate/host/loader --library-path /linerate/host /linerate/host/contract)

CONTRACT_PORT=7471
NFS_RDMA_PORT=20049
VERBS_CONFIG=/tmp/verbs.toml
SIZE_MIB=32
# How long a command may take: on a busy machine the guest stands still for seconds.
PATIENCE=100s

# serve_verbs: Linerate serves two volumes by both protocols, and a folder, on the adapter.
serve_verbs() {
    mkdir -p /tmp/verbs && truncate -s ${SIZE_MIB}M /tmp/verbs/disk.img || return
    cat > $VERBS_CONFIG <<END
[[portal]]
protocol = "nfs"
transport = "rdma"
listen = "$GUEST_ADDRESS:$NFS_RDMA_PORT"
[[share]]
name = "files"
url = "dir:/tmp/verbs"
squash = "none"
[[portal]]
protocol = "iscsi"
transport = "rdma"
listen = "$GUEST_ADDRESS:$ISCSI_PORT"
[[portal]]
protocol = "nvme"
transport = "rdma"
listen = "$GUEST_ADDRESS:$NVME_PORT"
[[volume]]
name = "ram"
url = "ram:${SIZE_MIB}M"
[[volume]]
name = "file"
url = "file:/tmp/verbs.img?size=${SIZE_MIB}M"
END
    "${linerate[@]}" serve --config $VERBS_CONFIG --allow-any --ready-file /tmp/ready > /tmp/serve.log 2>&1 &
    server=$!
    eventually test -e /tmp/ready -o ! -d /proc/$server && test -e /tmp/ready && cat /tmp/ready && return
    cat /tmp/serve.log
    return 1
}

# stop_verbs: it ends well.
stop_verbs() {
    kill $server && wait $server && return
    cat /tmp/serve.log
    return 1
}

# kernel_nvme: the kernel's host on Linerate's portal.
kernel_nvme() {
    local volume
    NVME_TRANSPORT=rdma
    need kernel-nvme/discover nvme_discover
    for volume in ram file; do
        need "kernel-nvme/$volume/connect" connect "$volume"
        use_disk "kernel-nvme/$volume" "$disk"
        check "kernel-nvme/$volume/large" fio_verify "$disk" --bs=256k --size=8m
        check "kernel-nvme/$volume/disconnect" disconnect "$volume"
    done
}

# kernel_iser: the kernel's initiator on Linerate's portal.
kernel_iser() {
    local volume
    ISCSI_INTERFACE=iser ISCSI_PORTAL=$GUEST_ADDRESS:$ISCSI_PORT
    need kernel-iser/discover discover
    for volume in ram file; do
        need "kernel-iser/$volume/login" login "$volume"
        use_disk "kernel-iser/$volume" "$disk"
        check "kernel-iser/$volume/large" fio_verify "$disk" --bs=256k --size=8m
        check "kernel-iser/$volume/logout" logout "$volume"
    done
}

# kernel_nfs: the kernel's NFS client on Linerate's portal.
kernel_nfs() {
    local at=/tmp/mounted
    mkdir -p $at
    random_file /tmp/source 4
    need kernel-nfs/mount mount.nfs "$GUEST_ADDRESS:/files" $at -o "vers=4.2,port=$NFS_RDMA_PORT,proto=rdma"
    check kernel-nfs/copy cp /tmp/source $at/copy
    check kernel-nfs/fio fio_verify $at/fio --bs=64k --size=8m
    check kernel-nfs/fio-small fio_verify $at/fio-small --bs=4k --size=1m
    drop_caches
    check kernel-nfs/compare cmp /tmp/source $at/copy
    check kernel-nfs/remove rm $at/copy $at/fio $at/fio-small
    check kernel-nfs/unmount umount $at
    rm -f /tmp/source
}

# portal_of URL: where its name is discovered.
portal_of() { echo "${1%/*/*}?transport=rdma"; }

# client NAME URL MEBIBYTES [FAULT…]: Linerate's client discovers the volume and uses it.
client() {
    check "$1/discover" "${linerate[@]}" discover "$(portal_of "$2")"
    use_volume "$@"
}

# use_volume NAME URL MEBIBYTES [FAULT…]: Linerate's client fills the volume, reads it back, and keeps the contract of volumes, but for the peer's known faults.
use_volume() {
    local name=$1 url="$2?transport=rdma&timeout=$PATIENCE" size=$3
    random_file /tmp/source "$size"
    check "$name/copy" "${linerate[@]}" copy file:/tmp/source "$url" --overwrite
    check "$name/compare" "${linerate[@]}" compare file:/tmp/source "$url"
    check "$name/back" "${linerate[@]}" copy "$url" "file:/tmp/back?size=${size}M" --overwrite
    check "$name/same" cmp /tmp/source /tmp/back
    rm -f /tmp/source /tmp/back
    check "$name/contract" timeout 600 "${volume_suite[@]}" "$url" "${@:4}"
}

nvme_url() { echo "nvme+rdma://$GUEST_ADDRESS:$NVME_PORT/$SUBSYSTEM_PREFIX:$1/1"; }
iser_url() { echo "iser://$GUEST_ADDRESS:$ISCSI_PORT/$TARGET_PREFIX:$1/0"; }

# kernel_targets: Linerate's client on nvmet and on LIO; their faults are told in harness/peers.py.
kernel_targets() {
    target_modules ib_isert nvmet_rdma
    lio_backstores
    LIO_TRANSPORT=iser
    need target-memory target memory rd_mcp_0/memory
    need target-block target block iblock_0/block ImmediateData=No FirstBurstLength=4096 MaxBurstLength=8192
    nvmet_port rdma "$PEER_ADDRESS" "$NVME_PORT"
    subsystems
    client nvmet-null "$(nvme_url null)" 24
    client nvmet-block "$(nvme_url block)" 24 torn
    client lio-memory "$(iser_url memory)" 24 compare=1 torn
    client lio-block "$(iser_url block)" 24 compare=1
    subsystems_gone
}

no_server() { ! pidof loader; }

# howto: the commands of docs/howto/rdma.md for adapters, as they stand there.
howto() {
    local name
    rm -rf /tmp/howto && mkdir -p /tmp/howto/bin && cd /tmp/howto || return
    printf '#!/bin/bash\nexec %s "$@"\n' "${linerate[*]}" > bin/linerate
    chmod +x bin/linerate
    for name in serve.toml howto-serve.sh howto-check.sh howto-use.sh; do cp "/linerate/host/$name" .; done
    random_file image.raw 1
    PATH=/tmp/howto/bin:$PATH bash -e howto-check.sh || return
    # What is served stays in the background, and ends with its process group.
    PATH=/tmp/howto/bin:$PATH setsid bash -e howto-serve.sh > served 2>&1
    eventually test -e ready && PATH=/tmp/howto/bin:$PATH bash -e howto-use.sh > used 2>&1 && grep -q IOPS used && kill "$(pidof loader)" && eventually no_server
    status=$?
    cat served used
    cd /linerate
    return $status
}

# verbs [FAULT…]: everything; the faults are the adapter's own, in the words of the contract suite.
verbs() {
    check contract timeout 600 "${suite[@]}" "$GUEST_ADDRESS:$CONTRACT_PORT" "$@"
    start_nvme
    start_iscsid
    modprobe -a nvme_rdma ib_iser nfsv4 rpcrdma
    need serve serve_verbs
    client itself-nvme "$(nvme_url file)" "$SIZE_MIB"
    client itself-iser "$(iser_url ram)" "$SIZE_MIB"
    use_volume itself-nfs "nfs+rdma://$GUEST_ADDRESS:$NFS_RDMA_PORT/files/disk.img" "$SIZE_MIB"
    kernel_nvme
    kernel_iser
    kernel_nfs
    check stop stop_verbs
    check howto howto
    kernel_targets
}
