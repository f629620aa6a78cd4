# Which disks are one: two servers whose volumes have equal names are two disks, two portals of one server are two paths to one; over a restart too.

. ./lib.sh
. ./iscsi_lib.sh
. ./nvme_lib.sh

# The guest has no udev, from whose database multipath takes what is a disk and who it is. So it is told that udev has seen each disk, and to ask
# the disk itself for its name (the empty uid_attribute); and the device mapper makes its nodes itself.
export DM_DISABLE_UDEV=1
multipath_config() {
    mkdir -p /etc /run/udev/data
    cat > /etc/multipath.conf << 'CONF'
defaults {
    uid_attribute ""
    find_multipaths no
    path_checker tur
    prio const
    path_grouping_policy multibus
    user_friendly_names no
}
blacklist {
    devnode "^(nvme|vd|ram|loop|ublk)"
}
CONF
}
seen_by_udev() { for disk in /sys/block/sd*; do echo "I:1" > "/run/udev/data/b$(cat "$disk/dev")"; done; }

# disk_at VOLUME PORTAL: the device of the session with that target at that portal.
disk_at() {
    local session connection
    for session in /sys/class/iscsi_session/session*; do
        [ "$(cat "$session/targetname")" = "$TARGET_PREFIX:$1" ] || continue
        for connection in "$session"/device/connection*/iscsi_connection/connection*; do
            [ "$(cat "$connection/persistent_address"):$(cat "$connection/persistent_port")" = "$2" ] &&
                ls "$session"/device/target*/*/block 2>/dev/null && return
        done
    done
    return 1
}

# at PORTAL COMMAND VOLUME: iscsi_lib's commands at another portal.
at() { ISCSI_PORTAL=$1 "${@:2}"; }

# attach_at PORTAL VOLUME: logs in there, and waits for the disk.
attach_at() { at "$1" node "$2" --login && eventually disk_at "$2" "$1"; }

# name_at PORTAL VOLUME: the name that multipath goes by, as the kernel read it from the disk.
name_at() { cat "/sys/block/$(disk_at "$2" "$1")/device/wwid"; }

# map_at VOLUME PORTAL: the map that multipath has made over that disk.
map_at() { cat /sys/block/"$(disk_at "$2" "$1")"/holders/dm-*/dm/name; }
maps() { dmsetup ls --target multipath | grep -c .; }

# paths MAP NUMBER: so many disks are its paths, and are fit to be used.
paths() { [ "$(multipath -ll "$1" | tee /dev/stderr | grep -Ec 'sd[a-z]+ +[0-9]+:[0-9]+ +active ready')" = "$2" ]; }

# Two servers' disks, and one that both have.
attach_all() {
    check "$1/east" attach_at "$EAST_ISCSI_PORTAL" twin
    check "$1/east-again" attach_at "$EAST_AGAIN_ISCSI_PORTAL" twin
    check "$1/west" attach_at "$WEST_ISCSI_PORTAL" twin
    check "$1/east-shared" attach_at "$EAST_ISCSI_PORTAL" shared
    check "$1/west-shared" attach_at "$WEST_ISCSI_PORTAL" shared
    seen_by_udev
    check "$1/multipath" multipath -v2
    check "$1/nodes" dmsetup mknodes
}

detach_all() {
    check "$1/flush" multipath -F
    check "$1/logout" iscsiadm -m node --logoutall=all
}

# put FILE DEVICE
put() { [ -b "$2" ] && dd if="$1" of="$2" bs=1M oflag=direct conv=fsync status=none; }

restart() { ask restart east && ask restart west; }

start_iscsid
start_nvme
modprobe -a dm_multipath dm_round_robin dm_service_time
multipath_config
random_file /tmp/east 4
random_file /tmp/west 4

need iscsi/discover-east at "$EAST_ISCSI_PORTAL" discover
need iscsi/discover-east-again at "$EAST_AGAIN_ISCSI_PORTAL" discover
need iscsi/discover-west at "$WEST_ISCSI_PORTAL" discover
attach_all iscsi
east=$(name_at "$EAST_ISCSI_PORTAL" twin) west=$(name_at "$WEST_ISCSI_PORTAL" twin) shared=$(name_at "$EAST_ISCSI_PORTAL" shared)
east_map=$(map_at "$EAST_ISCSI_PORTAL" twin) west_map=$(map_at "$WEST_ISCSI_PORTAL" twin) shared_map=$(map_at "$EAST_ISCSI_PORTAL" shared)
echo "+ $east is $east_map, $west is $west_map, $shared is $shared_map"
check iscsi/two-disks test "$east" != "$west"
check iscsi/maps test "$(maps)" = 3
check iscsi/east-paths paths "$east_map" 2
check iscsi/west-paths paths "$west_map" 1
check iscsi/shared-paths paths "$shared_map" 2
check iscsi/write-east put /tmp/east "/dev/mapper/$east_map"
check iscsi/write-west put /tmp/west "/dev/mapper/$west_map"
check iscsi/read-east same /tmp/east "/dev/mapper/$east_map"
check iscsi/fio fio_verify "/dev/mapper/$east_map" --bs=16k --size=2m --offset=8m
detach_all iscsi
need restart restart
attach_all iscsi-after
check iscsi-after/same-east test "$(name_at "$EAST_AGAIN_ISCSI_PORTAL" twin)" = "$east"
check iscsi-after/same-west test "$(name_at "$WEST_ISCSI_PORTAL" twin)" = "$west"
check iscsi-after/same-shared test "$(name_at "$WEST_ISCSI_PORTAL" shared)" = "$shared"
check iscsi-after/same-east-map test "$(map_at "$EAST_AGAIN_ISCSI_PORTAL" twin)" = "$east_map"
check iscsi-after/same-west-map test "$(map_at "$WEST_ISCSI_PORTAL" twin)" = "$west_map"
check iscsi-after/maps test "$(maps)" = 3
check iscsi-after/east-paths paths "$east_map" 2
check iscsi-after/read-east same /tmp/east "/dev/mapper/$east_map"
check iscsi-after/read-west same /tmp/west "/dev/mapper/$west_map"
detach_all iscsi-after

# from SERVER COMMAND…: nvme_lib's commands for that server's subsystems.
from() { SUBSYSTEM_PREFIX=$SUBSYSTEM_PREFIX.$1 "${@:2}"; }

# The native view: a subsystem, its controllers, and one disk for them all.
connect_all() {
    NVME_PORT=$EAST_NVME_PORT check "$1/east" from east connect twin
    east_disk=$disk
    NVME_PORT=$EAST_AGAIN_NVME_PORT check "$1/east-again" from east connect twin
    NVME_PORT=$WEST_NVME_PORT check "$1/west" from west connect twin
    west_disk=$disk
    check "$1/list" nvme list-subsys
    check "$1/disks" test "$(find /dev -name 'nvme*n1' | wc -l)" = 2
    check "$1/east-paths" test "$(controllers east)" = 2
    check "$1/west-paths" test "$(controllers west)" = 1
}
controllers() {
    local subsystem
    for subsystem in /sys/class/nvme-subsystem/*; do
        [ "$(cat "$subsystem/subsysnqn")" = "$SUBSYSTEM_PREFIX.$1:twin" ] && find "$subsystem/" -maxdepth 1 -name 'nvme*[0-9]' -type l | wc -l
    done
}
nguid() { cat "/sys/block/${1#/dev/}/nguid"; }
disconnect_all() { check "$1/disconnect" nvme disconnect-all; }

connect_all nvme
east=$(nguid "$east_disk") west=$(nguid "$west_disk")
check nvme/two-disks test "$east" != "$west"
check nvme/read-east same /tmp/east "$east_disk"
check nvme/read-west same /tmp/west "$west_disk"
check nvme/write-east put /tmp/west "$east_disk"
check nvme/write-west put /tmp/east "$west_disk"
disconnect_all nvme
need restart-again restart
connect_all nvme-after
check nvme-after/same-east test "$(nguid "$east_disk")" = "$east"
check nvme-after/same-west test "$(nguid "$west_disk")" = "$west"
check nvme-after/read-east same /tmp/west "$east_disk"
check nvme-after/read-west same /tmp/east "$west_disk"
disconnect_all nvme-after
