"""The virtual-machine harness: Linux' own iSCSI and NVMe/TCP initiators and targets against Linerate.

The machines that run the tests usually have a kernel without these initiators, and loading modules into somebody's kernel would be
rude anyway. So the harness boots Debian's kernels under software emulation and lets *them* judge. The map:

    packages   which Debian packages, from which mirror; fetched, never installed
    siw        a source package -> Linux' software iWARP as modules, cached likewise
    image      packages -> a bare kernel and an initramfs, cached by version
    emulator   QEMU of another Debian release, cached likewise
    network    a network namespace with a bridge and a tap, for one run
    server     what the guest talks to: `linerate serve`, or tgt to test the harness itself
    hardship   what long runs do to the server and to the network
    peers      the guest as the server, and Linerate's clients beside it
    nfs        folders over NFS, to the guest's own client
    nfs_peer   the guest's own NFS server, and Linerate's volumes on it
    posix      suites for file systems on folders over NFS
    rdma       one server with portals that speak iWARP and RoCE in user space
    hundred    one server that a hundred connections come to and leave, over a bad network
    footprint  what a process takes of its machine
    verbs      Linerate inside the guest, on the guest's adapters
    guest      one QEMU process, its two serial lines, and the clock that bounds it
    results    serial lines -> test results
    process    child processes that cannot outlive the harness
    __main__   the command line that puts these together
"""
