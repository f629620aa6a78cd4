# What a user does with files over NFS, by each version that is served.

. ./lib.sh
. ./nfs_lib.sh
. ./nfs_work_lib.sh

listed() { says "$NFS_ENTRIES" sh -c "ls /tmp/fixed/many | sort -u | wc -l"; }

# list_while_it_changes FOLDER: names that were there before and after are listed once each, whatever comes and goes meanwhile.
list_while_it_changes() {
    rm -f /tmp/over
    (
        number=0
        until [ -e /tmp/over ]; do
            number=$((number + 1))
            : > "$1/new-$number" && [ $number -lt 3 ] || rm "$1/new-$((number - 2))"
        done
    ) & local changer=$!
    # The shell asks for names only. Who asks for each name's attributes, as ls does, looks each up again after every change.
    (cd "$1" && printf '%s\n' *) > /tmp/names
    touch /tmp/over
    wait $changer || return
    says "$NFS_ENTRIES" sh -c "grep -c ^entry- /tmp/names" && says "$NFS_ENTRIES" sh -c "grep ^entry- /tmp/names | sort -u | wc -l"
}

modprobe nfsv3
modprobe nfsv4
random_file /tmp/original 8
for version in 3 4.1 4.2; do
    at=/mnt/$version
    need $version/mount mount_nfs $version /files $at
    check $version/speaks speaks $version $at
    check $version/mkdir mkdir $at/v
    check $version/fio fio_verify $at/v/fio --bs=64k --size=8m
    check $version/fio-small fio_verify $at/v/fio-small --bs=4k --size=1m
    check $version/copy cp /tmp/original $at/v/copy
    check $version/fsync xfs $at/v/copy fsync
    drop_caches
    check $version/compare cmp /tmp/original $at/v/copy
    check $version/append sh -c "cat /tmp/original >> $at/v/twice; cat /tmp/original >> $at/v/twice"
    check $version/size says 16777216 stat -c %s $at/v/twice
    check $version/truncate truncate -s 8388608 $at/v/twice
    drop_caches
    check $version/truncated cmp /tmp/original $at/v/twice
    check $version/server-has-it ask compare v/copy v/twice
    check $version/chmod chmod 640 $at/v/copy
    check $version/mode says 640 stat -c %a $at/v/copy
    check $version/chown chown 1000:1001 $at/v/copy
    check $version/owner says 1000:1001 stat -c %u:%g $at/v/copy
    check $version/owner-there ask owner files/v/copy 1000
    check $version/link ln $at/v/copy $at/v/link
    check $version/links says 2 stat -c %h $at/v/copy
    check $version/symlink ln -s copy $at/v/symlink
    check $version/through-symlink cmp /tmp/original $at/v/symlink
    check $version/rename mv $at/v/link $at/v/renamed
    check $version/renamed cmp /tmp/original $at/v/renamed
    check $version/rename-over mv $at/v/renamed $at/v/twice
    check $version/exclusive refused sh -c "set -C; : > $at/v/copy"
    check $version/unlink-open unlink_open $at/v/gone
    check $version/gone refused ls $at/v/gone
    check $version/locks locks $at/v/lock
    check $version/fifo mkfifo $at/v/fifo
    check $version/build build $at/v/build
    check $version/git repository $at/v
    check $version/reflink cp --reflink=auto $at/v/twice $at/v/cloned
    check $version/cloned cmp $at/v/twice $at/v/cloned
    if [ $version = 4.2 ]; then
        check $version/holes holes $at/v/holes
        check $version/allocate xfs $at/v/space falloc 0 4m
        check $version/deallocate xfs $at/v/copy fpunch 0 4m
        drop_caches
        check $version/zeros cmp -n 4194304 $at/v/copy /dev/zero
        check $version/occupied ask blocks v/copy 8192
        check $version/copy-range xfs_io -f -c "copy_range -l 8m $at/v/twice" $at/v/ranges
        check $version/copied cmp $at/v/twice $at/v/ranges
    fi
    check $version/df df $at
    check $version/rmdir-full refused rmdir $at/v
    check $version/remove rm -r $at/v
    check $version/unmount umount $at

    need $version/fixed mount_nfs $version /fixed /tmp/fixed
    check $version/many listed
    drop_caches
    check $version/many-again listed
    check $version/read-only refused touch /tmp/fixed/new
    check $version/content says 1048576 stat -c %s /tmp/fixed/content
    check $version/fixed-unmount umount /tmp/fixed

    need $version/changing mount_nfs $version /changing /tmp/changing
    check $version/list-while-it-changes list_while_it_changes /tmp/changing
    check $version/changing-unmount umount /tmp/changing

    need $version/squashed mount_nfs $version /squashed /tmp/squashed
    check $version/nobody touch /tmp/squashed/new-$version
    check $version/nobody-owns says 65534 stat -c %u /tmp/squashed/new-$version
    check $version/nobody-there ask owner squashed/new-$version 65534
    check $version/squashed-unmount umount /tmp/squashed

    if [ $version = 3 ]; then continue; fi
    need $version/root mount_nfs $version / /tmp/root
    check $version/shares says "changing files fixed squashed" sh -c "ls /tmp/root | tr '\n' ' ' | sed 's/ $//'"
    check $version/through-root ls /tmp/root/fixed/content
    check $version/root-unmount sh -c "umount /tmp/root/fixed; umount /tmp/root"
done
check connections mount_nfs 4.2 /files /mnt/4.2 nconnect=4
check connections/fio fio_verify /mnt/4.2/fio --bs=64k --size=8m
check connections/remove rm /mnt/4.2/fio
check connections/unmount umount /mnt/4.2
