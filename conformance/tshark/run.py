#!/usr/bin/env python3
"""Wireshark's dissectors judge every byte on the wire: no malformed frame, no error, nothing that they cannot name.

Clients do I/O through a recording proxy (`recorder.py`); `tshark` then decodes the capture. It must find each PDU that the traffic is known to
contain, so that a capture of nothing cannot pass.

NFS is spoken by libnfs' tools (version 3), by Linerate's own client (4.1 and 4.2), and by scripts that have every procedure and operation once (`nfs_script.py`).

Over RDMA it decodes MPA, DDP and RDMAP, and must find every CRC right; above those it knows RPC over RDMA with NFS, and has no dissector of iSER's or NVMe's messages that knows iWARP.

    run.py              all protocols, over TCP and over RDMA, on a Linerate of its own
    run.py --peer tgt   Debian's tgt instead, iSCSI only: proves the runner
    run.py --keep DIR   keeps the captures
"""
import argparse
import contextlib
import os
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent))
from harness import Account, Linerate, Tgt, linerate_binary, temporary_folder  # noqa: E402
import nfs_script  # noqa: E402
from recorder import CLIENT, Recorder, fpdu  # noqa: E402

SIZE = 64 << 20
# Seconds for one command.
TIME_LIMIT = 120
# What must be seen, by the dissector's number and the standard's name: RFC 7143 §11.2.1.2; NVMe/TCP §3.6.
ISCSI = {"0x03": "Login Request", "0x23": "Login Response", "0x01": "SCSI Command", "0x21": "SCSI Response", "0x25": "SCSI Data-In",
         "0x04": "Text Request", "0x24": "Text Response", "0x06": "Logout Request", "0x26": "Logout Response"}
ISCSI_WRITES = {"0x31": "Ready To Transfer", "0x05": "SCSI Data-Out"}
NVME = {"0": "ICReq", "1": "ICResp", "4": "CapsuleCmd", "5": "CapsuleResp", "7": "C2HData"}
NVME_WRITES = {"9": "R2T", "6": "H2CData"}
# RFC 5040 §4.3, by the dissector's number. An initiator or host sends no RDMA Write.
RDMA = {"0x00": "RDMA Write", "0x01": "RDMA Read Request", "0x02": "RDMA Read Response", "0x03": "Send", "0x04": "Send with Invalidate"}
# The same with RPC above, whose memory is taken back by who has named it (RFC 8166 §4.2).
RPC_RDMA = {number: word for number, word in RDMA.items() if word != "Send with Invalidate"}
# RFC 8881 §16.2, and of RFC 7862 §15.
NFS_RDMA = {"42": "EXCHANGE_ID", "43": "CREATE_SESSION", "58": "RECLAIM_COMPLETE", "53": "SEQUENCE", "22": "PUTFH", "24": "PUTROOTFH", "15": "LOOKUP", "10": "GETFH",
            "9": "GETATTR", "18": "OPEN", "25": "READ", "38": "WRITE", "5": "COMMIT", "4": "CLOSE", "44": "DESTROY_SESSION", "57": "DESTROY_CLIENTID"}
# RFC 1813 §3.3 and appendix I §5.2, of what a tool calls, and all.
NFS_TOOLS = {"1": "GETATTR", "3": "LOOKUP", "6": "READ", "7": "WRITE", "8": "CREATE", "17": "READDIRPLUS", "19": "FSINFO"}
NFS3 = {str(number): word for number, word in enumerate(
    ("NULL", "GETATTR", "SETATTR", "LOOKUP", "ACCESS", "READLINK", "READ", "WRITE", "CREATE", "MKDIR", "SYMLINK", "MKNOD", "REMOVE", "RMDIR", "RENAME", "LINK", "READDIR",
     "READDIRPLUS", "FSSTAT", "FSINFO", "PATHCONF", "COMMIT"))}
MOUNT = {str(number): word for number, word in enumerate(("NULL", "MNT", "DUMP", "UMNT", "UMNTALL", "EXPORT"))}
# What is served of RFC 8881 §16.2, and of RFC 7862 §15: docs/protocols/nfs.md.
NFS41 = NFS_RDMA | {"3": "ACCESS", "6": "CREATE", "11": "LINK", "12": "LOCK", "13": "LOCKT", "14": "LOCKU", "16": "LOOKUPP", "17": "NVERIFY", "21": "OPEN_DOWNGRADE", "23": "PUTPUBFH",
                    "26": "READDIR", "27": "READLINK", "28": "REMOVE", "29": "RENAME", "31": "RESTOREFH", "32": "SAVEFH", "33": "SECINFO", "34": "SETATTR", "37": "VERIFY",
                    "41": "BIND_CONN_TO_SESSION", "45": "FREE_STATEID", "52": "SECINFO_NO_NAME", "55": "TEST_STATEID"}
NFS42 = NFS41 | {"59": "ALLOCATE", "60": "COPY", "62": "DEALLOCATE", "69": "SEEK"}
# What would take the data of iWARP's messages for something of its own.
ABOVE_IWARP = ("rpcordma", "smb_direct")
# Bytes of the headers in a capture file, and where in an IPv4 header the source stands.
PCAP_HEADER, PACKET_HEADER, TCP_IP, IP_SOURCE = 24, 16, 40, 12
# Tests of libiscsi's suite whose PDUs are all well formed, and which between them use most commands.
SCSI_TESTS = ("Inquiry", "ModeSense6", "Read10.Simple", "Read16.Simple", "ReadCapacity16", "Write10.Simple", "Write16.Simple", "Unmap.Simple",
              "WriteSame10.Simple", "CompareAndWrite.Simple", "ReportSupportedOpcodes", "ProutReserve.Simple", "PrinReportCapabilities",
              "TestUnitReady")


def command(*arguments):
    """Runs a client; its failure is the test's."""
    run = subprocess.run([str(word) for word in arguments], capture_output=True, text=True, timeout=TIME_LIMIT)
    if run.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, arguments))} ended with {run.returncode}\n{run.stdout}{run.stderr}")
    return run.stdout


class Decoder:
    """tshark on one capture with one protocol on the server's port."""

    def __init__(self, path, port, protocol, above=None):
        self.protocol, self.above = protocol, above
        if protocol == "iwarp_mpa":
            # Found by what a stream begins with, whatever the port.
            how = ["-o", "tcp.try_heuristic_first:TRUE", *[word for other in ABOVE_IWARP if other != above for word in ("--disable-protocol", other)]]
        else:
            how = ["-d", f"tcp.port=={port},{protocol}"]
        self.base = ["tshark", "-n", "-r", str(path), *how]

    def lines(self, display, *fields):
        """The fields of the frames that a display filter selects, without the empty ones."""
        picks = [word for field in fields for word in ("-e", field)]
        output = command(*self.base, "-Y", display, "-T", "fields", *picks)
        return [line for line in output.splitlines() if line.strip()]

    def complaints(self):
        """What is malformed, an error, or decoded as nothing."""
        fields = ("frame.number", "_ws.col.Info", "_ws.expert.message")
        error = self.lines("_ws.malformed || _ws.expert.severity == error", *fields)
        unknown = f"tcp.len > 0 && !({self.protocol}) && !tcp.segment_data && !tcp.reassembled_in"
        if self.protocol == "rpc":
            # Data that no call or answer claims, and calls of programs and answers to calls that the dissector does not know.
            unknown += " || rpc.unknown_body || (rpc && !(nfs || mount) && !tcp.segment_data) || nfs.opcode == 10044"
        if self.protocol == "nvme-tcp":
            unknown += " || nvme-tcp.unknown_data"
        unknown = self.lines(unknown, *fields)
        wrong = self.wrong_crcs() if self.protocol == "iwarp_mpa" else []
        cut = self.cut_short() if self.protocol == "iscsi" else self.placed() if self.above == "rpcordma" else set()
        error = [line for line in error if line.split("\t")[0] not in cut]
        return [f"error: {line[:200]}" for line in error] + [f"not decoded: {line[:200]}" for line in unknown] + wrong

    def crcs(self):
        """What the dissector says of each CRC of iWARP."""
        return [line.strip() for line in command(*self.base, "-V").splitlines() if line.strip().startswith("CRC check:")]

    def wrong_crcs(self):
        """CRCs that are not right."""
        return [line for line in self.crcs() if "Good CRC32" not in line]

    def cut_short(self):
        """Frames whose one PDU is a Data-In as long as its command allows: the initiator asked for the first bytes of a longer answer (SPC-4
        §4.2.5.6, allocation length), which is right, but the dissector calls it malformed when a field is cut in two."""
        answers = self.lines("_ws.malformed && iscsi.opcode == 0x25", "frame.number", "iscsi.datasegmentlength", "iscsi.request_frame")
        commands = self.lines("iscsi.opcode == 0x01", "frame.number", "iscsi.scsicommand.expecteddatatransferlength")
        allowed = dict(line.split("\t") for line in commands)
        return {frame for frame, length, command in map(str.split, answers) if allowed.get(command) == length}

    def placed(self):
        """Frames with the reply to a READ whose data went by RDMA Write: over iWARP the dissector does not join the two, and calls the reply cut short behind the
        length of the data. That must be as much as the reply says was written to the chunk (RFC 8166 §3.4.6)."""
        answers = self.lines("_ws.malformed && rpc.msgtyp == 1 && rpcordma.writes_count == 1", "frame.number", "rpcordma.rdma_length", "nfs.read.data_length")
        return {frame for frame, written, length in (line.split("\t") for line in answers) if set(length.split(",")) == {written}}

    def check(self, opcode, demanded):
        """Fails on any complaint, and on any PDU that should be there and is not."""
        complaints = self.complaints()
        if complaints:
            raise RuntimeError(f"{len(complaints)} complaints\n" + "\n".join(complaints[:12]))
        seen = {value for line in self.lines(opcode, opcode) for value in line.split(",")}
        missing = [name for number, name in demanded.items() if number not in seen]
        if missing:
            raise RuntimeError(f"never seen: {', '.join(missing)}; seen: {', '.join(sorted(seen))}")


def qemu_io(portal, url, digest):
    """Reads and writes of all sizes by libiscsi's initiator."""
    target, lun = url.removeprefix("iscsi://").rsplit("/", 2)[1:]
    image = (f"driver=raw,file.driver=iscsi,file.transport=tcp,file.portal={portal},file.target={target},file.lun={lun},"
             f"file.header-digest={digest}")
    steps = ("write -P 1 0 512", "write -P 2 4k 64k", "write -P 3 1M 4M", "flush", "read -P 1 0 512", "read -P 3 1M 4M", "write -z 8M 1M",
             "discard 16M 1M")
    command("qemu-io", "-t", "none", "-d", "unmap", "--image-opts", *[word for step in steps for word in ("-c", step)], image)


def libiscsi(portal, server):
    """Discovery, and a choice of the conformance suite."""
    command("iscsi-ls", f"iscsi://{portal}")
    url = server.iscsi("disk").split("/", 3)[3]
    for test in SCSI_TESTS:
        subprocess.run(["iscsi-test-cu", "--dataloss", f"--test=ALL.{test}", f"iscsi://{portal}/{url}"], capture_output=True, timeout=TIME_LIMIT)


def own_clients(portal, url, folder, digests):
    """Linerate's own initiator or host: a copy each way."""
    scheme, rest = url.split("://")
    remote = f"{scheme}://{portal}/{rest.split('/', 1)[1]}{digests}"
    source = folder / "source.raw"
    source.write_bytes(bytes(range(256)) * (SIZE // 256))
    command(linerate_binary(), "copy", f"file:{source}", remote, "--overwrite")
    command(linerate_binary(), "copy", remote, f"file:{folder}/back.raw?size={SIZE}", "--overwrite")
    command(linerate_binary(), "discover", f"{scheme}://{portal}")


@dataclass(frozen=True)
class Wire:
    """What is listened to: a protocol on a server's address, and the PDUs that must be seen."""

    protocol: str
    address: str
    opcode: str
    demanded: dict
    # Where in the client's second segment a byte is changed to see whether that is noticed: where a PDU begins, or within what a CRC covers.
    planted: int = 0
    # The protocol above iWARP's that the dissector knows.
    above: str | None = None
    # Of other fields, what must be seen.
    also: dict = field(default_factory=dict)
    # How long the message is that bytes begin with, where the dissector wants each to begin a segment.
    message: Callable[[bytes], int] | None = None


def garble(path, planted):
    """Changes a byte of the client's second segment to one that no PDU begins with."""
    content = bytearray(path.read_bytes())
    at, places = PCAP_HEADER, []
    while at < len(content):
        length = struct.unpack_from("<I", content, at + 8)[0]
        source = content[at + PACKET_HEADER + IP_SOURCE : at + PACKET_HEADER + IP_SOURCE + 4]
        if bytes(source) == socket.inet_aton(CLIENT) and length > TCP_IP:
            places.append(at + PACKET_HEADER + TCP_IP)
        at += PACKET_HEADER + length
    content[places[1] + planted] = 0x3B
    path.write_bytes(content)


def capture(account, name, wire, traffic):
    """Traffic through a recorder, the dissector's verdict, and whether the dissector can say no."""
    with temporary_folder() as folder:
        path = Path(folder) / "capture.pcap"
        decoder = Decoder(path, wire.address.rsplit(":", 1)[1], wire.protocol, wire.above)
        with account.test(name):
            with Recorder(path, wire.address, wire.message) as recorder:
                traffic(recorder.address, Path(folder))
            if capture.keep:
                shutil.copy(path, Path(capture.keep) / f"{name.replace(' ', '-').replace(',', '')}.pcap")
            for opcode, demanded in {wire.opcode: wire.demanded, **wire.also}.items():
                decoder.check(opcode, demanded)
        with account.test(f"{name}: a planted {'wrong byte' if wire.planted else 'PDU of no known kind'} is noticed"):
            garble(path, wire.planted)
            if not decoder.complaints():
                raise RuntimeError("no complaint")


def address_of(url):
    """The address and port in a volume's URL."""
    return url.split("://")[1].split("/")[0]


def iscsi_captures(account, server):
    """libiscsi and QEMU with and without header digests."""
    url = server.iscsi("disk")
    all_kinds = ISCSI | ISCSI_WRITES
    capture(account, "libiscsi", Wire("iscsi", address_of(url), "iscsi.opcode", ISCSI), lambda portal, _: libiscsi(portal, server))
    wire = Wire("iscsi", address_of(url), "iscsi.opcode", {number: word for number, word in all_kinds.items() if not word.startswith("Text")})
    for digest in ("none", "crc32c"):
        capture(account, f"qemu, header digest {digest}", wire, lambda portal, _: qemu_io(portal, url, digest))


def own_captures(account, server):
    """Linerate's own clients, with and without digests."""
    for wire, url, digests in (
        (Wire("iscsi", address_of(server.iscsi("disk")), "iscsi.opcode", ISCSI), server.iscsi("disk"), "?header_digest=crc32c&data_digest=crc32c"),
        (Wire("nvme-tcp", address_of(server.nvme("disk")), "nvme-tcp.type", NVME | NVME_WRITES), server.nvme("disk"), "?header_digest=1&data_digest=1"),
    ):
        for words, options in (("plain", ""), ("digests", digests)):
            capture(account, f"own client, {wire.protocol}, {words}", wire,
                    lambda portal, folder: own_clients(portal, url, folder, options))


def rdma_captures(account, server):
    """Linerate's own clients over RDMA, with CRCs: there an error of a byte is one."""
    for words, url in (("iser", server.iser("disk")), ("nvme+rdma", server.nvme_rdma("disk"))):
        wire = Wire("iwarp_mpa", address_of(url), "iwarp_rdma.opcode", RDMA, planted=24, message=fpdu)
        capture(account, f"own client, {words}, CRCs", wire, lambda portal, folder, url=url: own_clients(portal, url, folder, "?crc=1"))


@contextlib.contextmanager
def nfs_server(transport):
    """Linerate with a share `files` that has `disk.img`, over one transport."""
    with temporary_folder() as place:
        folder = Path(place)
        files = folder / "files"
        files.mkdir()
        with (files / "disk.img").open("wb") as image:
            image.truncate(SIZE)
        text = f'[[portal]]\nprotocol = "nfs"\ntransport = "{transport}"\nlisten = "127.0.0.1:0"\n\n[[share]]\nname = "files"\nurl = "dir:{files}"\nsquash = "none"\n'
        with Linerate(folder, config=text) as server:
            yield server


def nfs_rdma_capture(account):
    """Linerate's own client of NFS over RDMA, with CRCs: messages, and chunks that are read and written."""
    with nfs_server("iwarp") as server:
        wire = Wire("iwarp_mpa", server.portals["nfs-rdma"].strip(), "nfs.opcode", NFS_RDMA, planted=24, above="rpcordma", also={"iwarp_rdma.opcode": RPC_RDMA}, message=fpdu)
        capture(account, "own client, NFS over RDMA, CRCs", wire, lambda portal, folder: by_own_client(f"nfs+rdma://{portal}/files/disk.img?crc=1", folder))


def by_tools(portal, folder):
    """libnfs' tools: a folder is listed, a file goes in and comes out."""
    host, port = portal.rsplit(":", 1)
    url = f"nfs://{host}/files/{{}}?version=3&nfsport={port}&mountport={port}"
    source, back = folder / "source", folder / "back"
    source.write_bytes(bytes(range(256)) * 8192)
    command("nfs-cp", source, url.format("copied"))
    command("nfs-cp", url.format("copied"), back)
    command("nfs-ls", url.format(""))
    if back.read_bytes() != source.read_bytes():
        raise RuntimeError("what came back is not what went in")


def by_own_client(remote, folder):
    """Linerate's own client: a copy each way, and small requests."""
    source = folder / "source.raw"
    source.write_bytes(os.urandom(SIZE))
    command(linerate_binary(), "copy", f"file:{source}", remote, "--overwrite", "--verify")
    command(linerate_binary(), "bench", remote, "--rw", "randrw", "--bs", "512", "--runtime", "0.1", "--overwrite")


def nfs_captures(account):
    """NFS 3 with MOUNT, 4.1 and 4.2, by tools and by scripts. A planted byte changes the first word of a call: what follows is none."""
    with nfs_server("tcp") as server:
        address = server.portals["nfs"].strip()
        tools = Wire("rpc", address, "nfs.procedure_v3", NFS_TOOLS, also={"mount.procedure_v3": {"1": "MNT"}})
        capture(account, "libnfs, NFS 3", tools, by_tools)
        every = Wire("rpc", address, "nfs.procedure_v3", NFS3, also={"mount.procedure_v3": MOUNT})
        capture(account, "scripted, NFS 3 and MOUNT", every, lambda portal, _: nfs_script.version3(portal, "files"))
        for minor, operations in ((1, NFS41), (2, NFS42)):
            also = {"nfs.minorversion": {str(minor): f"version 4.{minor}"}}
            own = Wire("rpc", address, "nfs.opcode", NFS_RDMA, also=also)
            capture(account, f"own client, NFS 4.{minor}", own, lambda portal, scratch, minor=minor: by_own_client(f"nfs://{portal}/files/disk.img?version=4.{minor}", scratch))
            every = Wire("rpc", address, "nfs.opcode", operations, also=also)
            capture(account, f"scripted, NFS 4.{minor}", every, lambda portal, _, minor=minor: nfs_script.version4(portal, "files", minor))


def main():
    """Parses the command line and runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", choices=("tgt",))
    parser.add_argument("--keep", metavar="DIR")
    arguments = parser.parse_args()
    capture.keep = arguments.keep
    account = Account("tshark")
    with temporary_folder() as folder:
        with Tgt(folder, SIZE) if arguments.peer else Linerate(folder, [f"disk=ram:{SIZE}"]) as server:
            iscsi_captures(account, server)
            if not arguments.peer:
                own_captures(account, server)
                nfs_captures(account)
                rdma_captures(account, server)
                nfs_rdma_capture(account)
    return account.close()


if __name__ == "__main__":
    sys.exit(main())
