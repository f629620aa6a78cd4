# Two NFS clients at one server: this machine's, and that of a network namespace with an address, a host name and a link of its own, which the server knows as
# another client. What they lock, make, remove and write, the other has to see as the standard says; at last the second one's link is cut until its lease is over.

. ./lib.sh
. ./nfs_lib.sh

# second COMMAND…: in the second client's namespaces.
second() { nsenter -t $second -n -u "$@"; }

second_client() {
    setsid unshare -n -u sleep 100000 & second=$!
    eventually other_namespace || return
    second hostname second && ip link set eth1 netns $second || return
    second ip link set lo up && second ip link set eth1 up && second ip address add "$SECOND_GUEST_NETWORK" dev eth1
}

other_namespace() { [ "$(readlink /proc/$second/ns/net)" != "$(readlink /proc/self/ns/net)" ] && [ "$(readlink /proc/$second/ns/uts)" != "$(readlink /proc/self/ns/uts)" ]; }

# mount_both VERSION [OPTION]: the same folder at /mnt/a and /mnt/b, by one client each.
mount_both() {
    mount_nfs "$1" /files /mnt/a "$2" && second bash -c '. ./nfs_lib.sh; NFS_SERVER=$SECOND_NFS_SERVER; mount_nfs "$@"' - "$1" /files /mnt/b "$2"
}

unmount_both() { umount /mnt/a && umount /mnt/b; }

# user NAME: a process that does what it is told with one file.
user() {
    rm -f "/tmp/$1.orders" "/tmp/$1.answers"
    mkfifo "/tmp/$1.orders" "/tmp/$1.answers" || return
    perl file_user.pl obey < "/tmp/$1.orders" > "/tmp/$1.answers" & process[$1]=$!
    exec {orders[$1]}> "/tmp/$1.orders" {answers[$1]}< "/tmp/$1.answers"
}

# tell USER ORDER…, answer USER: an order to a user, and its next answer. order USER ORDER…: both.
tell() { local who=$1; shift; echo "$*" >&"${orders[$who]}"; }
answer() { local said; read -r said <&"${answers[$1]}" || return; echo "$said"; }
order() { tell "$@" && answer "$1"; }

# silent USER: it has not answered yet.
silent() { ! read -r -t 0 <&"${answers[$1]}"; }

# gone USER [SIGNAL]: ends a user, whose descriptors are closed then.
gone() {
    kill "-${2:-TERM}" "${process[$1]}"
    wait "${process[$1]}"
    exec {orders[$1]}>&- {answers[$1]}<&-
}

declare -A orders answers process

# locks_of VERSION: ranges, by two users at this client and one at the other.
locks_of() {
    local v=$1/locks
    user a
    user c
    user b
    need $v/open says open order a open create /mnt/a/locked
    check $v/open-beside says open order c open both /mnt/a/locked
    check $v/open-there says open order b open both /mnt/b/locked
    check $v/exclusive says granted order a lock exclusive 10 10
    check $v/exclusive-there says denied order b lock exclusive 15 10
    check $v/shared-there says denied order b lock shared 0 11
    check $v/beside-there says granted order b lock exclusive 20 10
    check $v/held-here says "exclusive 20 10" order a test shared 0 0
    check $v/held-there says "exclusive 10 10" order b test shared 0 20
    check $v/held-beside says "exclusive 10 10" order c test shared 0 20
    check $v/denied-beside says denied order c lock exclusive 19 1
    check $v/unlock-there says granted order b unlock 20 10
    check $v/free says free order a test exclusive 0 0

    # The middle of a range is given back: its ends stay.
    check $v/large says granted order a lock exclusive 100 300
    check $v/middle says granted order a unlock 200 100
    check $v/middle-free says granted order b lock exclusive 200 100
    check $v/front-held says denied order b lock shared 199 1
    check $v/back-held says denied order b lock shared 300 1
    check $v/middle-unlock says granted order b unlock 200 100

    # Shared by both; only who is alone gets more, and gives it back to sharing.
    check $v/all-unlock says granted order a unlock 0 0
    check $v/both-share says granted order a lock shared 0 0
    check $v/both-share-there says granted order b lock shared 50 1
    check $v/upgrade-denied says denied order a lock exclusive 0 0
    check $v/still-shared says denied order b lock exclusive 60 1
    check $v/share-unlock says granted order b unlock 50 1
    check $v/upgrade says granted order a lock exclusive 0 0
    check $v/upgraded says denied order b lock shared 50 1
    check $v/downgrade says granted order a lock shared 0 0
    check $v/downgraded says granted order b lock shared 50 1
    check $v/shares-unlock says granted order b unlock 0 0

    # The largest offsets there are.
    check $v/last-byte says granted order a lock exclusive 9223372036854775806 1
    check $v/last-byte-there says denied order b lock exclusive 9223372036854775806 0
    check $v/last-byte-unlock says granted order a unlock 0 0

    # One that waits gets the lock when the other gives it back, when the other closes the file, and when the other dies.
    check $v/first says granted order a lock exclusive 0 100
    check $v/wait tell b wait exclusive 50 100
    check $v/waits says denied order c lock shared 0 1
    check $v/not-yet silent b
    check $v/give says granted order a unlock 0 100
    check $v/given says granted answer b
    check $v/wait-back tell a wait shared 0 0
    check $v/waits-back says denied order c lock shared 60 1
    check $v/not-yet-back silent a
    check $v/close says closed order b close
    check $v/given-by-close says granted answer a
    check $v/open-again says open order b open both /mnt/b/locked
    check $v/wait-for-death tell b wait exclusive 0 0
    check $v/death gone a KILL
    check $v/given-by-death says granted answer b

    # Locks are given up with the first close of any descriptor, as POSIX has it; flock's are of the open and of the whole file.
    gone c
    gone b
    exec {here}<> /mnt/a/locked {there}< /mnt/b/locked
    check $v/flock flock -n -x $here
    check $v/flock-there refused flock -n -x /mnt/b/locked true
    check $v/flock-shared-there refused flock -n -s $there
    check $v/flock-unlock flock -u $here
    check $v/flock-shared flock -n -s $there
    check $v/flock-share flock -n -s $here
    exec {there}<&-
    check $v/flock-upgrade flock -n -x $here
    exec {here}>&-
    check $v/flock-closed flock -n -x /mnt/b/locked true
}

# both_race KIND FOLDER COUNT: both clients make the same names at the same time; each is made by one, and only one.
both_race() {
    perl file_user.pl race "$1" "/mnt/a/$2" "$3" first > /tmp/won-a & local first=$!
    perl file_user.pl race "$1" "/mnt/b/$2" "$3" second > /tmp/won-b || return
    wait $first || return
    echo "# $1: $(wc -l < /tmp/won-a) and $(wc -l < /tmp/won-b)"
    says "$(seq "$3")" sort -n /tmp/won-a /tmp/won-b
}

# both_bump COUNT: a number that both add to, and a file that both append to, under a lock.
both_bump() {
    mkdir /mnt/a/bump && printf '%015d ' 0 > /mnt/a/bump/number && : > /mnt/a/bump/list || return
    perl file_user.pl bump /mnt/a/bump "$1" first & local first=$!
    perl file_user.pl bump /mnt/b/bump "$1" second || return
    wait $first || return
    says "$(printf '%015d ' $(($1 * 2)))" cat /mnt/a/bump/number || return
    says "$(seq $(($1 * 2)))" cut -d ' ' -f 1 /mnt/b/bump/list && says "$1" grep -c second /mnt/a/bump/list
}

# turns COUNT: who opens a file after another has closed it reads what that one wrote, though its length is the same.
turns() {
    local turn
    for turn in $(seq 1000 2 $((1000 + $1 * 2))); do
        echo $turn > /mnt/a/turn || return
        says $turn cat /mnt/b/turn || return
        echo $((turn + 1)) > /mnt/b/turn || return
        says $((turn + 1)) cat /mnt/a/turn || return
    done
}

# Names that are removed, and renamed over, while somebody has what they named open.
names_of() {
    local v=$1/names
    user a
    user b
    echo before > /mnt/a/open
    need $v/open says open order a open both /mnt/a/open
    check $v/read says "read before" order a read 0 6
    # The client that has it open renames it away instead, and removes it when it is closed.
    check $v/remove-own rm /mnt/a/open
    check $v/removed-there eventually refused ls /mnt/b/open
    check $v/own-lives says "written" order a write 0 behind
    check $v/silly says 1 sh -c "ls -A /mnt/b | grep -c '^\.nfs'"
    check $v/own-reads says "read behind" order a read 0 6
    check $v/silly-sync sh -c "sync -d /mnt/a/.nfs*"
    check $v/silly-there sh -c "grep -q behind /mnt/b/.nfs*"
    check $v/own-close says closed order a close
    check $v/silly-gone eventually no_silly /mnt/b

    # Another client knows nothing of who has it open.
    echo before > /mnt/a/open
    need $v/open-again says open order a open both /mnt/a/open
    check $v/remove-there rm /mnt/b/open
    check $v/no-silly no_silly /mnt/b
    drop_caches
    if [ $1 = 3 ]; then
        check $v/stale says "failed: Stale file handle" order a read 0 6
    else
        check $v/lives says "read before" order a read 0 6
        check $v/written says written order a write 0 behind
        check $v/links eventually says "links 0" order a links
    fi
    order a close

    echo before > /mnt/a/open
    echo instead > /mnt/b/other
    need $v/open-to-rename says open order a open both /mnt/a/open
    check $v/rename-over mv /mnt/b/other /mnt/b/open
    drop_caches
    if [ $1 = 3 ]; then
        check $v/rename-stale says "failed: Stale file handle" order a read 0 6
    else
        check $v/rename-lives says "read before" order a read 0 6
    fi
    check $v/renamed says instead cat /mnt/a/open
    order a close
    need $v/open-renamed says open order a open both /mnt/a/open
    check $v/rename-own mv /mnt/b/open /mnt/b/elsewhere
    check $v/follows says written order a write 0 INSTEAD
    order a close
    check $v/followed says INSTEAD cat /mnt/b/elsewhere
    gone a
    gone b
}

no_silly() { ! ls -A "$1" | grep '^\.nfs'; }
mode_is() { [ "$(stat -c %a "$1")" = "$2" ]; }

# What one does, the other sees: at the latest when it looks again after the second that attributes are kept.
sees_of() {
    local v=$1/sees
    check $v/turns turns 20
    check $v/make sh -c "mkdir /mnt/a/seen && echo first > /mnt/a/seen/one"
    check $v/made eventually test -e /mnt/b/seen/one
    check $v/content says first cat /mnt/b/seen/one
    check $v/absent refused ls /mnt/b/seen/two
    check $v/make-two touch /mnt/a/seen/two
    check $v/appears eventually test -e /mnt/b/seen/two
    check $v/chmod chmod 600 /mnt/a/seen/one
    check $v/mode eventually mode_is /mnt/b/seen/one 600
    check $v/grow truncate -s 100000 /mnt/a/seen/one
    check $v/grown says 100000 sh -c "wc -c < /mnt/b/seen/one"
    check $v/shrink truncate -s 3 /mnt/b/seen/one
    check $v/shrunk says fir cat /mnt/a/seen/one
    check $v/remove rm -r /mnt/b/seen
    check $v/removed eventually refused ls /mnt/a/seen
}

# away: the second client's link is cut while it holds a lock. Its lock stays for its lease, and then until somebody wants it; then the client hears that it has
# lost everything, and begins anew.
away() {
    local v=$1/away
    user a
    user b
    need $v/open says open order b open create /mnt/b/leased
    check $v/open-here says open order a open both /mnt/a/leased
    check $v/lock says granted order b lock exclusive 0 0
    check $v/write says written order b write 0 before
    sync -d /mnt/b/leased
    check $v/cut second ip link set eth1 down
    check $v/held says denied order a lock exclusive 0 0
    check $v/wait tell a wait exclusive 0 0
    # It asks again after a second, two, four, and so on up to 30, and the lease is of 90.
    check $v/expired says granted answer a
    check $v/write-here says written order a write 0 behind
    sync -d /mnt/a/leased
    check $v/back second ip link set eth1 up
    # The page goes out when it is synced, at the latest when the link's retries are through, and by then the client knows that it may not.
    check $v/write-lost says written order b write 0 elapsed
    check $v/lost says "failed: Input/output error" order b sync
    check $v/holds says denied order_after_open b lock exclusive 0 0
    check $v/untouched says behind cat /mnt/b/leased
    check $v/unlock says granted order a unlock 0 0
    check $v/again says granted order b lock exclusive 0 0
    gone a
    gone b
}

order_after_open() { order "$1" close > /dev/null; order "$1" open both /mnt/b/leased > /dev/null; order "$@"; }

modprobe nfsv3
modprobe nfsv4
need second-client second_client
for version in 3 4.1 4.2; do
    need $version/mount mount_both $version actimeo=1
    [ $version = 3 ] || locks_of $version
    check $version/race-create-folder mkdir /mnt/a/race
    for kind in create mkdir link symlink; do check $version/race/$kind both_race $kind race 100; done
    check $version/race-remove rm -r /mnt/a/race
    [ $version = 3 ] || check $version/bump both_bump 50
    names_of $version
    sees_of $version
    [ $version != 4.2 ] || away $version
    check $version/remove sh -c "rm -rf /mnt/a/*"
    check $version/empty says "" ls -A /mnt/b
    check $version/unmount unmount_both
done
kill $second
