# What the scripts of RDMA share: the guest's software adapters, and rping, which reads and writes its peer's memory and compares what came.

GUEST_ADDRESS=${GUEST_NETWORK%/*}
RPING_PORT=7174
RPING_SECONDS=60

# rdma_modules MODULE…: the adapter's module, and what programs reach adapters by.
rdma_modules() { modprobe -a ib_uverbs rdma_ucm "$@"; }

# rdma_link NAME TYPE: a software adapter on the guest's network.
rdma_link() { rdma link add "$1" type "$2" netdev eth0 && eventually grep -q ACTIVE "/sys/class/infiniband/$1/ports/1/state"; }

# rping_listens [OPTION…]: rping as responder, in the background as $RPING.
rping_listens() {
    timeout "$RPING_SECONDS" rping -s -a "$GUEST_ADDRESS" -p "$RPING_PORT" -V "$@" > /tmp/rping 2>&1 &
    RPING=$!
    sleep 1
}

# rping_ended: the responder in the background has ended, and well.
rping_ended() {
    wait "$RPING" && return
    cat /tmp/rping
    return 1
}

# rping_asks ADDRESS PORT [OPTION…]: rping as initiator.
rping_asks() {
    local address=$1 port=$2
    shift 2
    timeout "$RPING_SECONDS" rping -c -a "$address" -p "$port" -V "$@"
}

# rping_here NAME: the guest with itself, with small and with large messages.
rping_here() {
    local size
    for size in 64 4096 60000; do
        rping_listens -C 5 -S "$size"
        check "$1/$size" rping_asks "$GUEST_ADDRESS" "$RPING_PORT" -C 5 -S "$size"
        check "$1/$size-responder" rping_ended
    done
}
