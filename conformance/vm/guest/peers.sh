# LIO and nvmet over TCP.

. ./lib.sh
. ./peers_lib.sh

target_modules nvmet_tcp
lio_backstores
digests=(HeaderDigest=CRC32C,None DataDigest=CRC32C,None)
need target-memory target memory rd_mcp_0/memory "${digests[@]}"
need target-file target file fileio_0/file "${digests[@]}"
need target-block target block iblock_0/block InitialR2T=Yes ImmediateData=No FirstBurstLength=4096 MaxBurstLength=8192 MaxRecvDataSegmentLength=4096
need chap chap file

nvmet_port tcp "$PEER_ADDRESS" "$NVME_PORT"
subsystems
serve
targets_gone
subsystems_gone
