# nvmet, the kernel's NVMe target, set up by hand in configfs.

nvmet=/sys/kernel/config/nvmet

# nvmet_port TRANSPORT ADDRESS SERVICE: a port of nvmet's, without subsystems; the transport is tcp or rdma.
nvmet_port() {
    port=$nvmet/ports/1
    mkdir -p $port
    echo "$1" > $port/addr_trtype
    echo ipv4 > $port/addr_adrfam
    echo "$2" > $port/addr_traddr
    echo "$3" > $port/addr_trsvcid
}

# subsystem NAME PATH: a subsystem with one namespace, on a block device or a file, for any host.
subsystem() {
    local folder=$nvmet/subsystems/$SUBSYSTEM_PREFIX:$1
    mkdir -p "$folder/namespaces/1"
    echo 1 > "$folder/attr_allow_any_host"
    echo -n "$2" > "$folder/namespaces/1/device_path"
    if [ -f "$2" ]; then echo 1 > "$folder/namespaces/1/buffered_io"; fi
    echo 1 > "$folder/namespaces/1/enable" && subsystem_enabled "$1" 1
}

# subsystem_enabled NAME 0|1: switching a subsystem off ends its controllers.
subsystem_enabled() {
    if [ "$2" = 1 ]; then
        ln -s "$nvmet/subsystems/$SUBSYSTEM_PREFIX:$1" "$port/subsystems/"
    else
        rm "$port/subsystems/$SUBSYSTEM_PREFIX:$1"
    fi
}

# subsystem_gone NAME: takes the subsystem down.
subsystem_gone() {
    local folder=$nvmet/subsystems/$SUBSYSTEM_PREFIX:$1
    subsystem_enabled "$1" 0 && echo 0 > "$folder/namespaces/1/enable" && rmdir "$folder/namespaces/1" "$folder"
}
