# The kernel's own NFS server, nfsd, with folders on ext4 and on tmpfs. Linerate's clients are on the other side of the network.

. ./lib.sh
. ./nfsd_lib.sh

need folders nfsd_folders
need nfsd nfsd_start
serve
check nfsd-stop nfsd_stop
# Linux 6.1 closes the files that nfsd keeps a little later.
check ext4-gone eventually umount /export/ext4
check ext4-fsck e2fsck -fn /dev/loop0
