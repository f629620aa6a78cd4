# What the scripts of the kernel's own targets share: what LIO and nvmet serve, and the harness's orders. Linerate's clients are on the other side of the network.

. ./lio_lib.sh
. ./nvmet_lib.sh

# target_modules MODULE…: the targets' modules, and those of what carries them.
target_modules() {
    mkdir -p /etc/target/pr
    modprobe -a configfs target_core_mod target_core_file target_core_iblock iscsi_target_mod nvmet "$@"
    modprobe brd rd_nr=1 rd_size=24576
    modprobe null_blk nr_devices=0
    mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
}

# null_disk NUMBER: /dev/nullbNUMBER, a disk in memory that discards. They are made in order: old kernels number them, later ones name them.
null_disk() {
    local folder=/sys/kernel/config/nullb/nullb$1
    [ -d "$folder" ] && return
    mkdir "$folder"
    echo 24 > "$folder/size"
    echo 1 > "$folder/memory_backed"
    echo 1 > "$folder/discard"
    echo 1 > "$folder/power"
}

# lio_backstores: the units `memory`, `file` and `block`.
lio_backstores() {
    need memory backstore rd_mcp memory rd_pages=6144
    truncate -s 24M /tmp/lio.img
    need file backstore fileio file fd_dev_name=/tmp/lio.img,fd_dev_size=25165824,fd_buffered_io=1 block_size=4096 emulate_tpu=1 emulate_tpws=1
    need null-disk null_disk 0
    need block backstore iblock block udev_path=/dev/nullb0 emulate_tpu=1 emulate_tpws=1
}

# subsystems: nvmet's `block`, `file` and `null`, on the port there is.
subsystems() {
    need subsystem-block subsystem block /dev/ram0
    truncate -s 24M /tmp/nvmet.img
    need subsystem-file subsystem file /tmp/nvmet.img
    need null-disk-2 null_disk 1
    need subsystem-null subsystem null /dev/nullb1
}

# serve: tells the harness that the targets are there, and does what it orders on the same serial line until it says `stop`.
serve() {
    local order name
    echo "# serving"
    stty -echo < /dev/ttyS1
    while read -r order name < /dev/ttyS1; do
        case $order in
            restart-iscsi) target_enabled "$name" 0 && target_enabled "$name" 1 ;;
            restart-nvme) subsystem_enabled "$name" 0 && subsystem_enabled "$name" 1 ;;
            stop) break ;;
        esac
        echo "# done $order $?"
    done
}

# targets_gone and subsystems_gone: take all of them down.
targets_gone() { for name in memory file block; do check target-$name-gone target_gone $name; done; }
subsystems_gone() { for name in block file null; do check subsystem-$name-gone subsystem_gone $name; done; }
