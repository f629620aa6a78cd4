# nvme-cli without a distribution around it. NVME_TRANSPORT is tcp unless a script says otherwise.

NVME_TRANSPORT=tcp

start_nvme() {
    modprobe -a nvme_tcp ext4 crc32c_generic
    [ -e /etc/nvme/hostid ] && return
    echo 2f1ce0b9-6f0f-4d4e-9d0a-7a1d4f1b1f01 > /etc/nvme/hostid
    echo "nqn.2014-08.org.nvmexpress:uuid:$(cat /etc/nvme/hostid)" > /etc/nvme/hostnqn
}

nvme_discover() { nvme discover --transport="$NVME_TRANSPORT" --traddr="$NVME_ADDRESS" --trsvcid="$NVME_PORT"; }

# controller_of VOLUME: the device of the controller, such as nvme0.
controller_of() {
    local controller
    for controller in /sys/class/nvme/nvme*; do
        [ "$(cat "$controller/subsysnqn")" = "$SUBSYSTEM_PREFIX:$1" ] && basename "$controller" && return
    done
    return 1
}

# namespace_of VOLUME: its first namespace, such as nvme0n1: the one with a device node, not the hidden one of a single path.
namespace_of() {
    local block
    for block in /sys/block/nvme*n1; do
        [ "$(cat "$block/device/subsysnqn")" = "$SUBSYSTEM_PREFIX:$1" ] && [ -b "/dev/${block##*/}" ] && echo "${block##*/}" && return
    done
    return 1
}

# connect VOLUME [OPTION…]: connects and waits for the disk, whose name is then in $disk, and the controller's in $controller.
connect() {
    nvme connect --transport="$NVME_TRANSPORT" --traddr="$NVME_ADDRESS" --trsvcid="$NVME_PORT" --nqn="$SUBSYSTEM_PREFIX:$1" --nr-io-queues=2 "${@:2}" &&
        eventually namespace_of "$1" && disk=/dev/$(namespace_of "$1") && controller=$(controller_of "$1")
}

disconnect() { nvme disconnect --nqn="$SUBSYSTEM_PREFIX:$1"; }
