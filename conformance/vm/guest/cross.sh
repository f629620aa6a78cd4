# One volume, two protocols: what was written over one is read over the other, with both connected at the same time.

. ./lib.sh
. ./iscsi_lib.sh
. ./nvme_lib.sh

start_iscsid
start_nvme
need discovery discover
for volume in ram file; do
    need $volume/login login $volume
    scsi_disk=$disk
    need $volume/connect connect $volume
    random_file /tmp/original 8
    check $volume/write-iscsi dd if=/tmp/original of="$scsi_disk" bs=1M oflag=direct conv=fsync status=none
    check $volume/read-nvme same /tmp/original "$disk"
    random_file /tmp/original 8
    check $volume/write-nvme dd if=/tmp/original of="$disk" bs=1M oflag=direct conv=fsync status=none
    check $volume/read-iscsi same /tmp/original "$scsi_disk"
    check $volume/disconnect disconnect $volume
    check $volume/logout logout $volume
done
