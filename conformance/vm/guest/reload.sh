# A server that changes what it serves a thousand times while both initiators work on what stays; and what comes and goes as they see it.

. ./lib.sh
. ./iscsi_lib.sh
. ./nvme_lib.sh

# load NAME DEVICE: writes and verifies without pause until /tmp/over is there.
load() {
    until [ -e /tmp/over ]; do
        fio --name="$1" --filename="$2" --ioengine=libaio --direct=1 --iodepth=8 --rw=randwrite --bs=16k --size=1m \
            --verify=crc32c --verify_fatal=1 --minimal > "/tmp/load-$1" 2>&1 || { cat "/tmp/load-$1"; return 1; }
    done
}

# second_unit: the disk of the second logical unit of the one session there is.
second_unit() { ls /sys/class/iscsi_session/session*/device/target*/*:1/block 2>/dev/null; }
second_namespace() { ls /sys/block 2>/dev/null | grep "^nvme[0-9]*n2$"; }

start_iscsid
start_nvme
need discovery discover
need login login ram
scsi=$disk
need connect connect file
nvme=$disk
rm -f /tmp/over
load iscsi "$scsi" & iscsi=$!
load nvme "$nvme" & nvmes=$!
check thousand ask reload 1000
touch /tmp/over
check iscsi-verified wait $iscsi
check nvme-verified wait $nvmes
check same-session test "$(ls /sys/class/iscsi_session | wc -l)" = 1
check iscsi/one-unit refused second_unit
check nvme/one-namespace refused second_namespace
random_file /tmp/original 4
for round in first again; do
    need $round/more ask reload more
    check $round/iscsi/rescan iscsiadm -m session --rescan
    check $round/iscsi/comes eventually second_unit
    unit=$(second_unit)
    check $round/iscsi/write dd if=/tmp/original of="/dev/$unit" bs=1M oflag=direct status=none
    check $round/nvme/comes eventually second_namespace
    namespace=$(second_namespace)
    check $round/nvme/write dd if=/tmp/original of="/dev/$namespace" bs=1M oflag=direct status=none
    check $round/iscsi/read same /tmp/original "/dev/$unit"
    echo 1 > "/sys/block/$unit/device/delete"
    need $round/fewer ask reload fewer
    check $round/nvme/goes eventually refused second_namespace
    check $round/iscsi/rescan-again iscsiadm -m session --rescan
    check $round/iscsi/goes refused second_unit
done
check iscsi/fio fio_verify "$scsi" --bs=16k --size=1m
check nvme/fio fio_verify "$nvme" --bs=16k --size=1m
check disconnect disconnect file
check logout logout ram
