# The kernel's NFS server, as nfs-kernel-server of Debian's starts it, and the harness's orders.

# nfsd_folders: a folder on ext4 and one on tmpfs, with a file of 24 MiB of zeros each; and what is exported of them.
nfsd_folders() {
    modprobe -a nfsd loop ext4 md5
    mkdir -p /export /var/lib/nfs/rpc_pipefs /var/lib/nfs/nfsdcld /var/lib/nfs/v4recovery
    mount -t tmpfs export /export && mkdir /export/ext4 /export/tmpfs /export/readonly || return
    truncate -s 160M /tmp/ext4.img && losetup /dev/loop0 /tmp/ext4.img && mke2fs -q -F -t ext4 /dev/loop0 && mount /dev/loop0 /export/ext4 || return
    mount -t tmpfs tmpfs /export/tmpfs || return
    truncate -s 24M /export/ext4/disk.img /export/tmpfs/disk.img /export/ext4/other.img /export/readonly/disk.img
    truncate -s 1000 /export/ext4/odd.img
    ln -s disk.img /export/ext4/link.img
    mount -t nfsd nfsd /proc/fs/nfsd && mount -t rpc_pipefs rpc_pipefs /var/lib/nfs/rpc_pipefs || return
    touch /var/lib/nfs/etab /var/lib/nfs/rmtab
    printf '%s\n' '/export *(rw,fsid=0,insecure,no_root_squash,no_subtree_check,crossmnt)' \
        '/export/ext4 *(rw,fsid=1,insecure,no_root_squash,no_subtree_check)' \
        '/export/tmpfs *(rw,fsid=2,insecure,no_root_squash,no_subtree_check)' \
        '/export/readonly *(ro,fsid=3,insecure,no_root_squash,no_subtree_check)' > /etc/exports
}

# nfsd_start: its helpers stay when it is stopped: one keeps what clients may reclaim, the other answers who may mount what.
nfsd_start() {
    if [ ! -e /run/nfsd-helpers ]; then
        setsid nfsdcld -F & cld=$!
        exportfs -ra && setsid rpc.mountd -F -N 3 & mountd=$!
        : > /run/nfsd-helpers
    fi
    # Both are as long as it lets them be short, so that a client waits for seconds after a restart.
    echo 10 > /proc/fs/nfsd/nfsv4leasetime
    echo 10 > /proc/fs/nfsd/nfsv4gracetime
    exportfs -ra && rpc.nfsd -N 3 --port "$NFS_PORT" 4
}

nfsd_stop() { rpc.nfsd 0; }

# nfsd_versions MINOR…: only these minor versions, of 1 and 2.
nfsd_versions() {
    local minor words=
    for minor in 1 2; do case " $* " in *" $minor "*) words+=" +4.$minor" ;; *) words+=" -4.$minor" ;; esac; done
    nfsd_stop && echo "$words" > /proc/fs/nfsd/versions && nfsd_start
}

# serve: tells the harness that the server is there, and does what it orders on the same serial line until it says `stop`.
serve() {
    local order words
    echo "# serving"
    stty -echo < /dev/ttyS1
    while read -r order words < /dev/ttyS1; do
        case $order in
            restart) nfsd_stop && nfsd_start ;;
            versions) nfsd_versions $words ;;
            holds) holds $words ;;
            begun) eventually begun $words ;;
            stop) break ;;
        esac
        echo "# done $order $?"
    done
}

# holds FILE SUM: what a file under /export holds, for whoever reads it here.
holds() { [ "$(sha256sum "/export/$1" | cut -d ' ' -f 1)" = "$2" ]; }

# begun FILE BLOCKS: so much of a file is not a hole.
begun() { [ "$(stat -c %b "/export/$1")" -ge "$2" ]; }
