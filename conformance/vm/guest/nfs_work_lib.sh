# What users do with files, whatever carries them: each is one check of a script's.

# build FOLDER: what a build does: many small files are made, read, put together, packed and unpacked, and found again by their times.
build() {
    mkdir -p "$1/src" "$1/obj" || return
    local number
    for number in $(seq 60); do
        seq $number 400 > "$1/src/$number.c" && md5sum < "$1/src/$number.c" > "$1/obj/.$number" && mv "$1/obj/.$number" "$1/obj/$number.o" || return
    done
    cat "$1"/obj/*.o > "$1/program.new" && mv "$1/program.new" "$1/program" || return
    says 60 sh -c "wc -l < $1/program" || return
    says "" find "$1/src" -newer "$1/program" || return
    tar -C "$1" -cf "$1/all.tar" src obj program && mkdir "$1/again" && tar -C "$1/again" -xf "$1/all.tar" || return
    drop_caches
    diff -r "$1/src" "$1/again/src" && diff -r "$1/obj" "$1/again/obj"
}

# repository FOLDER: git, which maps files, links them, renames over them and syncs them.
repository() {
    export HOME=/tmp GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
    git init -q "$1/one" && seq 20000 > "$1/one/numbers" && git -C "$1/one" add . && git -C "$1/one" commit -q -m one || return
    seq 10000 > "$1/one/numbers" && git -C "$1/one" commit -q -a -m two && git -C "$1/one" repack -q -a -d || return
    git clone -q "$1/one" "$1/two" || return
    drop_caches
    git -C "$1/two" fsck --full --strict && says "$(git -C "$1/one" rev-parse HEAD)" git -C "$1/two" rev-parse HEAD && git -C "$1/two" diff --exit-code HEAD~1 --stat | grep -q numbers
}

# An open file outlives its name.
unlink_open() {
    exec 7<> "$1" || return
    rm "$1" || return
    cat /tmp/original >&7 || return
    sync
    drop_caches
    cmp /proc/self/fd/7 /tmp/original
    local status=$?
    exec 7>&-
    return $status
}

holes() {
    xfs "$1" truncate 16m && xfs "$1" pwrite -q 8m 1m && xfs "$1" fsync || return
    drop_caches
    says "Whence	Result
DATA	8388608" xfs_io -c "seek -d 0" "$1" && says "Whence	Result
HOLE	9437184" xfs_io -c "seek -h 8m" "$1"
}

# Another open of the same file is another owner of locks.
locks() {
    local status
    exec 8> "$1" || return
    flock -n -x 8 && refused flock -n -x "$1" true && flock -u 8 && flock -n -x "$1" true
    status=$?
    exec 8>&-
    return $status
}
