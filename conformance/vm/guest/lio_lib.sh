# LIO, the kernel's iSCSI target, set up by hand in configfs.

lio=/sys/kernel/config/target
# What carries the targets that are made: tcp, or iser.
LIO_TRANSPORT=tcp

# portal FOLDER: where a target is reached. LIO opens a TCP socket for each portal, also for one of iSER; by software iWARP, which has TCP's ports, iSER's socket then finds
# its port taken. So the TCP socket is opened in a network namespace of its own.
portal() {
    if [ "$LIO_TRANSPORT" = iser ]; then
        unshare --net mkdir -p "$1" && echo 1 > "$1/iser"
    else
        mkdir -p "$1"
    fi
}

# backstore KIND NAME CONTROL [ATTRIBUTE=VALUE…]: a unit of LIO's, with a serial number, from which its name (NAA) is made.
backstore() {
    local folder=$lio/core/${1}_0/$2 setting
    mkdir -p "$folder"
    echo -n "$3" > "$folder/control"
    echo 1 > "$folder/enable" || return
    echo "linerate-test-$2" > "$folder/wwn/vpd_unit_serial"
    for setting in "${@:4}"; do
        echo "${setting#*=}" > "$folder/attrib/${setting%%=*}" || return
    done
}

# target NAME BACKSTORE [PARAMETER=VALUE…]: one unit behind the portal, for any initiator.
target() {
    local group=$lio/iscsi/$TARGET_PREFIX:$1/tpgt_1 setting
    mkdir -p "$group/lun/lun_0" && portal "$group/np/$PEER_ADDRESS:$ISCSI_PORT" || return
    ln -s "$lio/core/$2" "$group/lun/lun_0/unit"
    for setting in authentication=0 generate_node_acls=1 demo_mode_write_protect=0 cache_dynamic_acls=1; do
        echo "${setting#*=}" > "$group/attrib/${setting%%=*}"
    done
    for setting in "${@:3}"; do
        echo "${setting#*=}" > "$group/param/${setting%%=*}" || return
    done
    target_enabled "$1" 1
}

# target_enabled NAME 0|1: switching a target off ends its sessions.
target_enabled() { echo "$2" > "$lio/iscsi/$TARGET_PREFIX:$1/tpgt_1/enable"; }

# chap NAME: asks for CHAP in both directions.
chap() {
    local group=$lio/iscsi/$TARGET_PREFIX:$1/tpgt_1
    echo 1 > "$group/attrib/authentication"
    echo -n "$CHAP_USER" > "$group/auth/userid"
    echo -n "$CHAP_SECRET" > "$group/auth/password"
    echo -n "$CHAP_MUTUAL_USER" > "$group/auth/userid_mutual"
    echo -n "$CHAP_MUTUAL_SECRET" > "$group/auth/password_mutual"
}

# target_gone NAME: takes the target down, sessions or not. Over iSER it waits for ever now and then, whoever was connected and left: such targets, and the adapter below them, stay until the
# guest is switched off.
target_gone() {
    local group=$lio/iscsi/$TARGET_PREFIX:$1/tpgt_1
    target_enabled "$1" 0 && rm "$group/lun/lun_0/unit" && rmdir "$group/lun/lun_0" "$group"/np/* "$group" "${group%/*}"
}
