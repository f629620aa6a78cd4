# For the harness's selftest only: the kernel's own NVMe/TCP target, with the volumes that Linerate would have.

. ./lib.sh
. ./nvmet_lib.sh

modprobe -a configfs nvmet nvmet_tcp loop
modprobe brd rd_nr=2 rd_size=262144
mount -t configfs configfs /sys/kernel/config

nvmet_port tcp "$NVME_ADDRESS" "$NVME_PORT"
number=0
for volume in ram file; do
    check $volume subsystem $volume /dev/ram$number
    number=$((number + 1))
done
