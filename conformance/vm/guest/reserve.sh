# One volume, two protocols, one reservation: Linux' SCSI disk and NVMe namespace of the same volume keep each other out.

. ./lib.sh
. ./iscsi_lib.sh
. ./nvme_lib.sh

persist() { sg_persist --no-inquiry "$@" "$scsi_disk"; }
resv() { nvme "resv-$1" "$disk" "${@:2}"; }

# may_write DEVICE, may_read DEVICE: one block, past the page cache.
may_write() { dd if=/dev/zero of="$1" bs=4096 count=1 oflag=direct status=none; }
may_read() { dd if="$1" of=/dev/null bs=4096 count=1 iflag=direct status=none; }

# reported PATTERN: Reservation Report, as the NVMe host prints it.
reported() { resv report --eds --output-format=json | tee /dev/stderr | grep -Eq "$1"; }

start_iscsid
start_nvme
need discovery discover
need login login ram
scsi_disk=$disk
need connect connect ram

# The initiator holds it: the host may read, but not write.
check scsi/register persist --out --register --param-sark=a1
check scsi/reserve persist --out --reserve --param-rk=a1 --prout-type=1
check scsi/writes may_write "$scsi_disk"
check nvme/reads may_read "$disk"
check nvme/fenced refused may_write "$disk"
check nvme/report-type reported '"rtype" *: *1'
check nvme/report-key reported '"rkey" *: *161'
check nvme/no-key refused resv acquire --crkey=0xb2 --rtype=1 --racqa=0

# The host takes it over: the initiator may not even read.
check nvme/register resv register --nrkey=0xb2 --rrega=0
check nvme/busy refused resv acquire --crkey=0xb2 --rtype=2 --racqa=0
check nvme/preempt resv acquire --crkey=0xb2 --prkey=0xa1 --rtype=2 --racqa=2
check nvme/writes may_write "$disk"
check scsi/told refused persist --out --reserve --param-rk=a1 --prout-type=1
check scsi/fenced refused may_read "$scsi_disk"
check scsi/sees-key grep -qi 0xb2 <(persist --in --read-keys)
check scsi/sees-host grep -q "uuid:$(cat /etc/nvme/hostid)" <(persist --in --read-full-status)

# And gives it back.
check nvme/release resv release --crkey=0xb2 --rtype=2 --rrela=0
check scsi/reads may_read "$scsi_disk"
check nvme/replace resv register --crkey=0xb2 --nrkey=0xc3 --rrega=2
check nvme/clear resv release --crkey=0xc3 --rrela=1 --rtype=0
check nvme/empty reported '"regctl" *: *0'
check disconnect disconnect ram
check logout logout ram
