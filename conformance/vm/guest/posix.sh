# Suites for file systems on mounts of the server's: pjdfstest (what POSIX promises of names, modes and owners), fsx (a file against a copy in memory, by random
# operations), dbench (what a file server's clients do).

. ./lib.sh
. ./nfs_lib.sh

# host PROGRAM …: a program of the machine's, with the libraries beside it.
host() {
    local program=$1
    shift
    /linerate/host/loader --library-path /linerate/host "/linerate/host/$program" "$@"
}

# pjdfstest_on VERSION FOLDER: the tests, less those that NFS or Linux' client answers otherwise, which have to fail: guest/pjdfstest.txt has them with their reasons.
pjdfstest_on() {
    local expected
    expected=$(grep -v '^#' pjdfstest.txt | while read -r versions name _; do [[ ,$versions, = *,$1,* ]] && printf '"%s", ' "$name"; done)
    printf '%s\n' '[features]' 'utime_now = {}' 'utimensat = {}' '[settings]' 'naptime = 0.05' "expected_failures = [$expected]" \
        '[dummy_auth]' 'entries = [["nobody", "nogroup"], ["tests", "tests"]]' > /tmp/pjdfstest.toml
    host pjdfstest --configuration-file /tmp/pjdfstest.toml --path "$2" --secondary-fs /tmp > /tmp/pjdfstest 2>&1
    local status=$?
    grep -A1 -E 'FAILED|UNEXPECTEDLY' /tmp/pjdfstest
    sed -n 's/^Summary/# saw pjdfstest &/p' /tmp/pjdfstest
    return $status
}

# fsx_on FOLDER OPERATIONS SEED: every operation that the version has.
fsx_on() {
    printf '%s\n' '[weights]' 'close_open = 1' 'invalidate = 1' 'truncate = 5' 'fsync = 1' 'fdatasync = 1' "$FSX_MORE" > /tmp/fsx.toml
    host fsx -f /tmp/fsx.toml -N "$2" -S "$3" -P /tmp "$1/fsx-$3" > /tmp/fsx 2>&1 && rm "$1/fsx-$3" && return
    tail -n 40 /tmp/fsx
    return 1
}

# dbench_on FOLDER: eight clients for a minute, of the guest's.
dbench_on() {
    host dbench --directory="$1" --loadfile=/linerate/host/client.txt --timelimit=60 8 > /tmp/dbench 2>&1
    local status=$?
    grep -E '^Throughput|ERROR|failed' /tmp/dbench | sed 's/^Throughput/# saw dbench: &/'
    return $status
}

printf '%s\n' nobody:x:65534:65534::/:/bin/false tests:x:1001:1001::/:/bin/false >> /etc/passwd
printf '%s\n' nogroup:x:65534: tests:x:1001: >> /etc/group
modprobe nfsv3
modprobe nfsv4
for version in 4.2 3; do
    at=/mnt/$version
    need $version/mount mount_nfs $version /files $at
    check $version/pjdfstest pjdfstest_on $version $at
    FSX_MORE=
    [ $version != 4.2 ] || FSX_MORE='posix_fallocate = 2
punch_hole = 2
copy_file_range = 2'
    for seed in 1 2 3; do check $version/fsx-$seed fsx_on $at 2000 $seed; done
    check $version/dbench dbench_on $at
    # dbench leaves its clients' files, and pjdfstest the folder of a test that keeps a file open, which Linux' client renames instead of removing.
    check $version/remove rm -rf $at/clients $at/.tmp*
    check $version/empty says "" ls -A $at
    check $version/unmount umount $at
done
