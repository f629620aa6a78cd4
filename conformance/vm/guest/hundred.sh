# A hundred connections of Linerate's client over RDMA, software iWARP and RoCE, and the kernel's initiators over siw, to a server beside the guest; over a network that is
# slow, loses, repeats and reorders, both ways. They come and go at random, and some are killed. Nothing that is read may be wrong, and the server is to keep nothing of them.

. ./initiators_lib.sh
. ./bad_network_lib.sh

churn=(/linerate/host/loader --library-path /linerate/host /linerate/host/churn)
COUNT=100
SECONDS_OF_A_ROUND=60
# Connections that are killed with their process. It uses other slices each time, as what it sent may be carried out after its end, and those of the file, so that the
# memory of the other volume is all there after the first round.
KILLED_COUNT=12

urls=()
for volume in ram file; do
    urls+=(
        "iser://$ISCSI_PORTAL/$TARGET_PREFIX:$volume/0"
        "nvme+rdma://$SERVER_ADDRESS:$NVME_PORT/$SUBSYSTEM_PREFIX:$volume/1?queues=1"
        "iser://$SERVER_ADDRESS:$ROCE_ISCSI_PORT/$TARGET_PREFIX:$volume/0?transport=roce&udp_port=$UDP_PORT"
        "nvme+rdma://$SERVER_ADDRESS:$ROCE_NVME_PORT/$SUBSYSTEM_PREFIX:$volume/1?transport=roce&udp_port=$UDP_PORT&queues=1"
    )
done

# crowd SEED: a hundred connections for the time of a round.
crowd() {
    local status
    "${churn[@]}" "$1" "$SECONDS_OF_A_ROUND" 0 "$COUNT" "${urls[@]}" > /tmp/crowd
    status=$?
    sed '$s/^/# saw /' /tmp/crowd
    return $status
}

# killed_again_and_again SEED: processes with a few connections, one after the other, each killed after some seconds, until the time of a round is over.
killed_again_and_again() {
    local end=$((SECONDS + SECONDS_OF_A_ROUND)) first=$COUNT victim
    RANDOM=$1
    while [ $SECONDS -lt $end ]; do
        "${churn[@]}" "$1" "$SECONDS_OF_A_ROUND" $first "$KILLED_COUNT" "${urls[@]:4}" > /tmp/killed 2>&1 &
        victim=$!
        sleep $((8 + RANDOM % 12))
        if ! kill -KILL $victim; then
            cat /tmp/killed
            return 1
        fi
        wait $victim
        first=$((first + KILLED_COUNT))
    done 2> /dev/null
}

# kernel_beside: verified I/O of the kernel's two initiators at the same time.
kernel_beside() {
    local nvme iser
    fio_verify "$nvme_disk" --bs=16k --size=4m & nvme=$!
    fio_verify "$iser_disk" --bs=16k --size=4m & iser=$!
    wait $nvme && wait $iser
}

# round NAME SEED [memory]: everything at the same time; when all have left, the server has nothing more than before, and no more memory if that is asked for.
round() {
    local killed kernel
    need "$1/connect" persistently connect siw-nvme
    nvme_disk=$disk
    need "$1/login" login siw-iser
    iser_disk=$disk
    killed_again_and_again "$2" & killed=$!
    kernel_beside & kernel=$!
    check "$1/crowd" crowd "$2"
    check "$1/killed" wait $killed
    check "$1/kernel" wait $kernel
    check "$1/logout" logout siw-iser
    check "$1/disconnect" disconnect siw-nvme
    check "$1/settled" ask settled before
    [ -z "$3" ] || check "$1/memory" ask settled first memory
}

start_nvme
start_iscsid
need load rdma_modules siw nvme_rdma ib_iser
need link rdma_link siw0 siw
need network bad_network
need before ask mark before
NVME_TRANSPORT=rdma ISCSI_INTERFACE=iser
need iser/discover iser_discover
round first "$SEED"
# What memory a server keeps for later is known after a round.
need mark ask mark first
round second $((SEED + 1)) memory
check good-network good_network
check unlink rdma link delete siw0
check unload rmmod siw
