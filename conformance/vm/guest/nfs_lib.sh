# Folders of the server's, as the kernel's NFS client mounts them.

# What mount.nfs looks up of every distribution's.
echo "tcp 6 TCP" > /etc/protocols
echo "tcp tpi_cots_ord v inet tcp - -" > /etc/netconfig

# mount_nfs VERSION PATH FOLDER [OPTION]: the options beside are those that a user would give. For version 3 there is neither a port mapper nor a lock manager.
mount_nfs() {
    local three
    [ "$1" = 3 ] && three=",mountport=$NFS_PORT,mountproto=tcp,nolock"
    mkdir -p "$3"
    mount.nfs "$NFS_SERVER:$2" "$3" -o "vers=$1,port=$NFS_PORT,proto=tcp$three${4:+,$4}"
}

# speaks VERSION FOLDER: what the kernel says that it mounted.
speaks() { grep " $2 nfs4\? .*vers=$1," /proc/mounts; }

# xfs FILE COMMAND…: one command of xfs_io's, on any file system.
xfs() {
    local file=$1
    shift
    xfs_io -f -c "$*" "$file"
}

# says TEXT COMMAND…: the command succeeds, and prints this.
says() {
    local text=$1 said
    shift
    said=$("$@") || { echo "$said"; return 1; }
    [ "$said" = "$text" ] && return
    echo "it says: $said"
    return 1
}
