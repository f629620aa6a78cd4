# Linux' iSCSI initiator: discovery, then each volume with CRC32C digests and once without.

. ./lib.sh
. ./iscsi_lib.sh

# identify VOLUME: what the SCSI layer and its tools ask a disk.
identify() {
    local page
    check "$1/inquiry" sg_inq "$disk"
    for page in sv sn di bl lbpv; do
        check "$1/vpd-$page" sg_vpd --page=$page "$disk"
    done
    check "$1/capacity" sg_readcap --long "$disk"
    check "$1/ready" sg_turs "$disk"
    check "$1/luns" sg_luns "$disk"
}

digests() {
    setting "$1" 'node.conn[0].iscsi.HeaderDigest' "$2"
    setting "$1" 'node.conn[0].iscsi.DataDigest' "$2"
}

start_iscsid
need discovery discover
for volume in ram file; do
    need $volume/discovered grep -q "$TARGET_PREFIX:$volume" <(discover)
    digests $volume CRC32C
    need $volume/login login $volume
    check $volume/header-digest negotiated HeaderDigest CRC32C
    check $volume/data-digest negotiated DataDigest CRC32C
    identify $volume
    use_disk $volume "$disk"
    check $volume/logout logout $volume
done

# Open-iscsi asks for the names of a thousand targets in parts. They are not kept.
many() { [ "$(iscsiadm -m discovery -t sendtargets -p "$MANY_ISCSI_PORTAL" -o nonpersistent | grep -c "$TARGET_PREFIX:many-")" = "$MANY" ]; }
[ -z "${MANY:-}" ] || check many/discovered many

digests ram None
need plain/login login ram
check plain/no-digest negotiated HeaderDigest None
check plain/fio fio_verify "$disk" --bs=16k --size=4m
check plain/logout logout ram
