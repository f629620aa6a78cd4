# For the harness's selftest only: the kernel's own NVMe/TCP target, with the volumes that Linerate would have.

. ./lib.sh

modprobe -a configfs nvmet nvmet_tcp loop
modprobe brd rd_nr=2 rd_size=262144
mount -t configfs configfs /sys/kernel/config

port=/sys/kernel/config/nvmet/ports/1
mkdir $port
echo tcp > $port/addr_trtype
echo ipv4 > $port/addr_adrfam
echo "$NVME_ADDRESS" > $port/addr_traddr
echo "$NVME_PORT" > $port/addr_trsvcid

number=0
for volume in ram file; do
    subsystem=/sys/kernel/config/nvmet/subsystems/$SUBSYSTEM_PREFIX:$volume
    mkdir -p "$subsystem/namespaces/1"
    echo 1 > "$subsystem/attr_allow_any_host"
    echo -n /dev/ram$number > "$subsystem/namespaces/1/device_path"
    echo 1 > "$subsystem/namespaces/1/enable"
    check $volume ln -s "$subsystem" $port/subsystems/
    number=$((number + 1))
done
