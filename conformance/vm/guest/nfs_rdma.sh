# NFS over RDMA as the kernel's client speaks it, by the guest's software iWARP and software RoCE: what a user does by versions 4.2, 4.1 and 3, and a server that is killed.

. ./lib.sh
. ./rdma_lib.sh
. ./nfs_lib.sh
. ./nfs_work_lib.sh

# mount_rdma VERSION PORT FOLDER: version 3 asks for its handle over TCP, where MOUNT is served.
mount_rdma() {
    local three
    [ "$1" = 3 ] && three=",mountport=$NFS_PORT,mountproto=tcp,nolock"
    mkdir -p "$3"
    mount.nfs "$NFS_SERVER:/files" "$3" -o "vers=$1,port=$2,proto=rdma$three"
}

# by_rdma FOLDER: what the kernel says that it mounted.
by_rdma() { grep " $1 nfs4\? .*proto=rdma," /proc/mounts; }

# sizes FOLDER: files around what fits into a message, into a page, into one registration and into one READ or WRITE.
sizes() {
    local size
    for size in 1 3 900 1100 3900 4096 4097 65535 1048576 1048577 3145733; do
        head -c $size /tmp/original > "$1/sized" && drop_caches && head -c $size /tmp/original | cmp - "$1/sized" || return
    done
    rm "$1/sized"
}

# names FOLDER: a listing of many answers, and a link whose target is as long as can be.
names() {
    local target
    target=$(head -c 4000 /dev/zero | tr '\0' x | sed 's/.\{100\}/&\//g')
    mkdir "$1/names" && (cd "$1/names" && seq 3000 | xargs touch) || return
    drop_caches
    says 3000 sh -c "ls $1/names | sort -u | wc -l" || return
    ln -s "$target" "$1/names/long" || return
    drop_caches
    says "$target" readlink "$1/names/long" && rm -r "$1/names"
}

# over ADAPTER PORT: everything over one adapter.
over() {
    local adapter=$1 port=$2 version at
    for version in 4.2 4.1 3; do
        at=/mnt/$adapter-$version
        check $adapter/$version/mount mount_rdma $version $port $at || continue
        check $adapter/$version/speaks speaks $version $at
        check $adapter/$version/rdma by_rdma $at
        check $adapter/$version/mkdir mkdir $at/v
        check $adapter/$version/copy cp /tmp/original $at/v/copy
        drop_caches
        check $adapter/$version/compare cmp /tmp/original $at/v/copy
        check $adapter/$version/sizes sizes $at/v
        check $adapter/$version/names names $at/v
        check $adapter/$version/fio fio_verify $at/v/fio --bs=64k --size=8m
        check $adapter/$version/fio-small fio_verify $at/v/fio-small --bs=4k --size=1m
        check $adapter/$version/unlink-open unlink_open $at/v/gone
        check $adapter/$version/locks locks $at/v/lock
        check $adapter/$version/build build $at/v/build
        check $adapter/$version/git repository $at/v
        if [ $version = 4.2 ]; then
            check $adapter/$version/holes holes $at/v/holes
            check $adapter/$version/copy-range xfs_io -f -c "copy_range -l 8m $at/v/copy" $at/v/ranges
            check $adapter/$version/copied cmp $at/v/copy $at/v/ranges
        fi
        check $adapter/$version/remove rm -r $at/v
        check $adapter/$version/unmount umount $at
    done
}

# The kernel's client writes while the server is killed; what was synced is there.
killed() {
    local writer
    fio_verify "$1/killed" --bs=16k --size=16m --fsync=16 & writer=$!
    sleep 2
    ask kill || return
    wait $writer
}

modprobe nfsv3
modprobe nfsv4
need rpcrdma modprobe rpcrdma
random_file /tmp/original 8

need siw/load rdma_modules siw
need siw/link rdma_link siw0 siw
over siw "$NFS_RDMA_PORT"
check siw/again mount_rdma 4.2 "$NFS_RDMA_PORT" /mnt/siw
check siw/killed killed /mnt/siw
check siw/again-unmount umount /mnt/siw
check siw/unlink rdma link delete siw0

need rxe/load rdma_modules rdma_rxe
need rxe/link rdma_link rxe0 rxe
over rxe "$NFS_ROCE_PORT"
check rxe/unlink rdma link delete rxe0
