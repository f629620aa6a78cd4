# A server that is killed, and one that is stopped, while files are open, locked and written: the client reclaims, and nothing that was synced is lost.

. ./lib.sh
. ./nfs_lib.sh

# write_on FILE: appends and syncs numbers without pause until /tmp/over is there.
write_on() {
    local number=0
    until [ -e /tmp/over ]; do
        number=$((number + 1))
        echo $number >> "$1" && sync -d "$1" || return
        echo $number > /tmp/synced
    done
}

# in_order FILE: it has every number up to the last that was synced, and in order.
in_order() { cmp "$1" <(seq "$(tail -n 1 "$1")") && [ "$(tail -n 1 "$1")" -ge "$(cat /tmp/synced)" ]; }

modprobe nfsv4
random_file /tmp/original 8
for version in 4.1 4.2; do
    for order in kill restart; do
        name=$version/$order
        at=/mnt/$version
        need $name/mount mount_nfs $version /files $at hard
        exec 8> $at/lock
        need $name/lock flock -n -x 8
        exec 7<> $at/open
        rm -f /tmp/over
        write_on $at/numbers & writer=$!
        check $name/server ask $order
        check $name/write-open cp /tmp/original /proc/self/fd/7
        check $name/sync sync
        touch /tmp/over
        check $name/writer wait $writer
        check $name/lock-held refused flock -n -x $at/lock true
        check $name/unlock flock -u 8
        check $name/lock-free flock -n -x $at/lock true
        exec 8>&- 7>&-
        drop_caches
        check $name/compare cmp /tmp/original $at/open
        check $name/in-order in_order $at/numbers
        check $name/remove rm $at/lock $at/open $at/numbers
        check $name/unmount umount $at
    done
done
