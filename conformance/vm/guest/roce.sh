# Linux' initiators over its software RoCE, `rdma_rxe`: as usual, and over a network that loses one packet in a hundred, each way.
. ./initiators_lib.sh

# sessions_lost: how many the kernel has noticed.
sessions_lost() { dmesg | grep -c 'detected conn error'; }

# rxe_tells: from now on the kernel's log has a line where rxe carries out a registration of memory a second time, which ends its queue pair (docs/decisions/0029).
rxe_tells() { echo 'func rxe_reg_fast_mr +p' > /proc/dynamic_debug/control; }

# rxe_faults: how often it has done that.
rxe_faults() { dmesg | grep -c 'lkey = .* not free'; }

# ping_after SECONDS PATIENCE: at the next login the initiator pings after so many seconds of silence, and gives its session up after so many more.
ping_after() { setting ram 'node.conn[0].timeo.noop_out_interval' "$1" && setting ram 'node.conn[0].timeo.noop_out_timeout' "$2"; }

# login_through_losses VOLUME: a session that is lost early takes the initiator's search for disks with it, which only another session repeats.
login_through_losses() {
    local attempt
    for attempt in 1 2 3; do
        login "$1" && return
        echo "attempt $attempt: no disk"
        logout "$1"
    done
    return 1
}

# only_rxe_loses LOST FAULTS: if more sessions were lost than these, rxe had more faults than these. It may be fewer than sessions: one that is lost may need several logins.
only_rxe_loses() {
    local lost=$(($(sessions_lost) - $1)) faults=$(($(rxe_faults) - $2))
    echo "# saw $lost sessions lost with one command at a time, and $faults faults of rxe's"
    [ "$lost" = 0 ] || [ "$faults" -gt 0 ]
}

# iser_through_losses: rxe ends a queue pair when it repeats a command with the registration of a later one's memory behind it. With several commands at a time it does so often; with
# one at a time only where a command's acknowledgement was lost, so that it stands as unanswered when the next command goes. The session is lost then, comes back, and repeats
# what it had not been answered. So no session is lost with one command at a time but by rxe's doing, which its own words have to show. No ping goes beside a command that
# waits for its repetition, which takes about a second; one that comes after 20 s finds the queue pair dead.
iser_through_losses() {
    local began=$SECONDS lost faults
    lost=$(sessions_lost) faults=$(rxe_faults)
    need loss/iser/rare-pings ping_after 20 20
    need loss/iser/login login_through_losses ram
    check loss/iser/large fio_verify "$disk" --bs=256k --size=4m --iodepth=1
    check loss/iser/small fio_verify "$disk" --bs=4k --size=1m --iodepth=1
    check loss/iser/only-rxe-loses only_rxe_loses "$lost" "$faults"
    check loss/iser/logout logout ram
    # With several, sessions are lost: pings notice it sooner.
    need loss/iser/pings ping_after 4 8
    need loss/iser/login-again login_through_losses ram
    check loss/iser/several fio_verify "$disk" --bs=4k --size=256k
    check loss/iser/logout-again logout ram
    echo "# saw iSER through losses take $((SECONDS - began)) s; sessions lost so far, with those of the cut: $(sessions_lost); faults of rxe's: $(rxe_faults)"
}

start_nvme
start_iscsid
need load rdma_modules rdma_rxe crc32_generic nvme_rdma ib_iser
need tells rxe_tells
need link rdma_link rxe0 rxe
nvme_over_rdma "$ROCE_NVME_PORT"
iser "$ROCE_ISCSI_PORTAL"

need loss/begins ask lose 1
for volume in ram file; do
    need "loss/$volume/connect" persistently connect "$volume" --keep-alive-tmo=5 --reconnect-delay=2 --ctrl-loss-tmo=120
    use_disk "loss/$volume" "$disk"
    check "loss/$volume/large" fio_verify "$disk" --bs=256k --size=8m
    check "loss/$volume/disconnect" disconnect "$volume"
done
echo "# saw NVMe reconnect so far, with the reset and the cut: $(dmesg | grep -c 'Successfully reconnected')"
iser_through_losses
need loss/ends ask lose 0
check unlink rdma link delete rxe0
