# The kernel's NFS server, and the harness's orders.

# nfsd_folders: a folder on ext4 and one on tmpfs, with a file of 24 MiB of zeros each; and what is exported of them.
nfsd_folders() {
    modprobe -a nfsd loop ext4 md5
    mkdir -p /export /var/lib/nfs/rpc_pipefs /var/lib/nfs/nfsdcld /var/lib/nfs/v4recovery
    mount -t tmpfs export /export && mkdir /export/ext4 /export/tmpfs /export/readonly || return
    truncate -s 160M /tmp/ext4.img && losetup /dev/loop0 /tmp/ext4.img && mke2fs -q -F -t ext4 /dev/loop0 && mount /dev/loop0 /export/ext4 || return
    # What is exported by itself has to be mounted by itself: nfsd looks for another export only where something is mounted.
    mount -t tmpfs tmpfs /export/tmpfs && mount -t tmpfs readonly /export/readonly || return
    truncate -s 24M /export/ext4/disk.img /export/tmpfs/disk.img /export/ext4/other.img /export/readonly/disk.img
    truncate -s 1000 /export/ext4/odd.img
    ln -s disk.img /export/ext4/link.img
    mount -t nfsd nfsd /proc/fs/nfsd && mount -t rpc_pipefs rpc_pipefs /var/lib/nfs/rpc_pipefs
}

# nfsd_tell CACHE WORDS: what rpc.mountd would answer the kernel, which may do without it: it ends in the guest (a segmentation fault in the C library, before its
# first answer).
nfsd_tell() { echo "$2" > "/proc/net/rpc/$1/channel"; }

# nfsd_export NUMBER FLAGS PATH: to anybody. The flags are the kernel's: 1 read-only, 2 from any port, 0x20 gathered writes, 0x400 no check of subtrees, 0x2000 a
# number for the file system, 0x4000 with what is mounted in it.
nfsd_export() {
    nfsd_tell nfsd.export "* $3 2147483647 $(($2)) -2 -2 $1" && nfsd_tell nfsd.fh "* 1 \\x0${1}000000 2147483647 $3"
}

nfsd_without=()

# nfsd_start: nfsdcld, which keeps what clients may reclaim, stays when the server is stopped.
nfsd_start() {
    if [ ! -e /run/nfsdcld-runs ]; then
        setsid nfsdcld -F &
        : > /run/nfsdcld-runs
    fi
    # Both are as long as it lets them be short, so that a client waits for seconds after a restart.
    echo 10 > /proc/fs/nfsd/nfsv4leasetime
    echo 10 > /proc/fs/nfsd/nfsv4gracetime
    # Told by its options, because it writes the kernel's list of versions anew.
    rpc.nfsd -N 3 "${nfsd_without[@]}" --port "$NFS_PORT" 4 || return
    nfsd_tell auth.unix.ip "nfsd $SERVER_ADDRESS 2147483647 *" && nfsd_export 0 0x6422 /export && nfsd_export 1 0x2422 /export/ext4 &&
        nfsd_export 2 0x2422 /export/tmpfs && nfsd_export 3 0x2423 /export/readonly
}

nfsd_stop() { rpc.nfsd 0; }

# nfsd_versions MINOR…: only these minor versions, of 1 and 2.
nfsd_versions() {
    local minor
    nfsd_without=()
    for minor in 1 2; do [[ " $* " = *" $minor "* ]] || nfsd_without+=(-N "4.$minor"); done
    nfsd_stop && nfsd_start
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
            empty) empty $words ;;
            begun) eventually begun $words ;;
            denied) eventually denied ;;
            stop) break ;;
        esac
        echo "# done $order $?"
    done
}

# holds FILE SUM: what a file under /export holds, for whoever reads it here.
holds() { [ "$(sha256sum "/export/$1" | cut -d ' ' -f 1)" = "$2" ]; }

# empty FILE: it is a hole from its begin to its end.
empty() { local size; size=$(stat -c %s "/export/$1") && truncate -s 0 "/export/$1" && truncate -s "$size" "/export/$1"; }

# begun FILE BLOCKS: so much of a file is not a hole.
begun() { [ "$(stat -c %b "/export/$1")" -ge "$2" ]; }

# denied: a client keeps others from writing a file.
denied() { grep -q 'type: open.* deny: -w' /proc/fs/nfsd/clients/*/states; }
