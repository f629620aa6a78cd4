# open-iscsi without a distribution around it. ISCSI_INTERFACE names the transport: default is TCP, iser is RDMA.

ISCSI_INTERFACE=default

node() { iscsiadm -m node -T "$TARGET_PREFIX:$1" -p "$ISCSI_PORTAL" "${@:2}"; }

# setting VOLUME NAME VALUE: for the next login.
setting() { node "$1" -o update -n "$2" -v "$3"; }

# Starts iscsid, under a session of its own: it dies with the script's otherwise.
start_iscsid() {
    modprobe -a iscsi_tcp sd_mod sg ext4 crc32c_generic
    [ -e /etc/iscsi/initiatorname.iscsi ] || echo "InitiatorName=iqn.2026-11.org.linerate.test:guest" > /etc/iscsi/initiatorname.iscsi
    # One try, and not for minutes; and an emulated processor may be slow to see an answer.
    sed -i \
        -e 's/^\(node.session.initial_login_retry_max\) *=.*/\1 = 1/' \
        -e 's/^\(node.conn\[0\].timeo.login_timeout\) *=.*/\1 = 30/' \
        -e 's/^\(node.conn\[0\].timeo.noop_out_timeout\) *=.*/\1 = 60/' \
        -e 's/^iscsid.startup *=.*/iscsid.startup = \/usr\/bin\/true/' /etc/iscsi/iscsid.conf
    pidof iscsid > /dev/null || setsid iscsid -f -d 1 > /tmp/iscsid.log 2>&1 &
    eventually iscsiadm -m iface -o show
}

discover() { iscsiadm -m discovery -t sendtargets -p "$ISCSI_PORTAL" -I "$ISCSI_INTERFACE"; }

# disk_of VOLUME: the device of the session with that target.
disk_of() {
    local session
    for session in /sys/class/iscsi_session/session*; do
        [ "$(cat "$session/targetname")" = "$TARGET_PREFIX:$1" ] && ls "$session"/device/target*/*/block 2>/dev/null && return
    done
    return 1
}

# login VOLUME: logs in and waits for the disk, whose name is then in $disk.
login() {
    if ! node "$1" --login; then
        tail -n 8 /tmp/iscsid.log
        return 1
    fi
    eventually disk_of "$1" && disk=/dev/$(disk_of "$1") && eventually test -b "$disk"
}

logout() { node "$1" --logout; }

# negotiated NAME VALUE: what the one session there is has agreed on.
negotiated() { iscsiadm -m session -P 2 | tee /dev/stderr | grep -q "$1: $2"; }
