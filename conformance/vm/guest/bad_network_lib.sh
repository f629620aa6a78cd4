# A bad network, made inside of the guest by netem: what comes goes through a device of its own (ifb), as netem has only what is sent.

# One way: 5 ms; one packet of a hundred is lost, one of a hundred overtakes the others, one of two hundred comes twice.
BAD=(delay 5ms loss 1% duplicate 0.5% reorder 1% limit 20000)

# bad_network: from now on, both ways. Each packet counts by itself: nothing is sent or received in trains.
bad_network() {
    modprobe -a ifb sch_netem sch_ingress act_mirred cls_matchall || return
    ethtool -K eth0 tso off gso off gro off rx-gro-hw off
    ip link show ifb0 > /dev/null 2>&1 || ip link add ifb0 type ifb || return
    ip link set ifb0 up &&
        tc qdisc add dev eth0 handle ffff: ingress &&
        tc filter add dev eth0 parent ffff: matchall action mirred egress redirect dev ifb0 &&
        tc qdisc add dev ifb0 root netem "${BAD[@]}" &&
        tc qdisc add dev eth0 root netem "${BAD[@]}" &&
        tc qdisc show
}

# good_network: it is over, and what was done is told.
good_network() {
    tc -s qdisc show dev eth0
    tc -s qdisc show dev ifb0
    tc qdisc delete dev eth0 ingress && tc qdisc delete dev eth0 root && ip link delete ifb0
}
