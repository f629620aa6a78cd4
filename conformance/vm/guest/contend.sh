# Two initiators and one disk: by iSCSI, by NVMe/TCP, and one by each. They take it from each other, their links are cut, the server is killed.

. ./lib.sh
. ./iscsi_lib.sh
. ./nvme_lib.sh

guest=(/linerate/host/loader --library-path /linerate/host /linerate/host/vm-guest)
rounds=16

# The second initiator, with a name and a link of its own.
second_iscsi() {
    iscsiadm -m iface -I second -o new && iscsiadm -m iface -I second -o update -n iface.initiatorname -v iqn.2026-11.org.linerate.test:second &&
        iscsiadm -m discovery -t sendtargets -p "$SECOND_ISCSI_PORTAL" -I second
}

# disk_through PORTAL VOLUME
disk_through() {
    local session
    for session in /sys/class/iscsi_session/session*; do
        [ "$(cat "$session/targetname")" = "$TARGET_PREFIX:$2" ] &&
            grep -q "^${1%:*}$" "$session"/device/connection*/iscsi_connection/connection*/persistent_address &&
            ls "$session"/device/target*/*/block 2>/dev/null && return
    done
    return 1
}

# initiator_of NUMBER PROTOCOL VOLUME: logs in or connects as that client; the disk is then in $disk.
initiator_of() {
    local portal=$ISCSI_PORTAL address=$NVME_ADDRESS iface=default host=1
    [ "$1" = 2 ] && portal=$SECOND_ISCSI_PORTAL address=$SECOND_NVME_ADDRESS iface=second host=2
    if [ "$2" = iscsi ]; then
        local node=(iscsiadm -m node -T "$TARGET_PREFIX:$3" -p "$portal" -I "$iface") setting
        # A dead path is noticed in seconds, and given up in some more.
        for setting in noop_out_interval=3 noop_out_timeout=5; do
            "${node[@]}" -o update -n "node.conn[0].timeo.${setting%=*}" -v "${setting#*=}" || return
        done
        "${node[@]}" -o update -n node.session.timeo.replacement_timeout -v 6 && "${node[@]}" --login || return
        eventually disk_through "$portal" "$3" && disk=/dev/$(disk_through "$portal" "$3") && eventually test -b "$disk" || return
        echo 10 > "/sys/block/${disk#/dev/}/device/timeout"
        echo "iscsi:$disk" > /tmp/client
    else
        local before
        before=$(ls /sys/class/nvme)
        nvme connect --transport=tcp --traddr="$address" --trsvcid="$NVME_PORT" --nqn="$SUBSYSTEM_PREFIX:$3" --nr-io-queues=2 \
            --hostnqn="nqn.2014-08.org.nvmexpress:uuid:2f1ce0b9-6f0f-4d4e-9d0a-7a1d4f1b1f0$host" --hostid="2f1ce0b9-6f0f-4d4e-9d0a-7a1d4f1b1f0$host" \
            --keep-alive-tmo=5 --reconnect-delay=1 --ctrl-loss-tmo=600 || return
        controller=$(ls /sys/class/nvme | grep -vxF "$before" | head -n 1)
        echo 6 > "/sys/class/nvme/$controller/fast_io_fail_tmo" || return
        disk=/dev/${controller}n1
        eventually test -b "$disk" || return
        echo "nvme:$disk" > /tmp/client
    fi
}

contended() { "${guest[@]}" contend "$first" "$second" $rounds "$SEED" /tmp/history; }

start_iscsid
modprobe nvme_core multipath=N # two hosts on one machine are two disks, not two paths
start_nvme
need discovery discover
need second-initiator second_iscsi
for pair in $PAIRS; do
    need "$pair/first" initiator_of 1 "${pair%-*}" "$pair"
    first=$(cat /tmp/client)
    need "$pair/second" initiator_of 2 "${pair#*-}" "$pair"
    second=$(cat /tmp/client)
    check "$pair/two-disks" test "$first" != "$second"
    check "$pair/linearizable" contended
    iscsiadm -m node --logoutall=all
    nvme disconnect-all
done
