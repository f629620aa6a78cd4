#!/usr/bin/env python3
"""What a well-behaved client keeps of its rate beside hostile peers, over both protocols: half of it is the promise.

`hostile.py [--program target/release/linerate] [--seconds 3] [--rounds 5] [--peers 100]` serves a null volume on one core with 64 MiB of memory, and prints a table: the rate of one client (4K reads, depth 32)
alone, then beside the hostile peers of each kind, and the ratio; medians of so many rounds, each of them alone and beside in turn. It ends with 1 when a ratio is below one half.

The hostile peers are one process of 100 connections: *silent* ones send nothing; *unread* ones ask without end (pings of 8 KiB over iSCSI, identify data over NVMe/TCP) and read no answer; *dataless* ones begin writes of 1 MiB
whose data never comes. Each comes back when the server closes its connection. Server, client and hostile peers share the machine's processors: the server has one of its own where there are two.
"""
import argparse
import multiprocessing
import select
import socket
import statistics
import struct
import sys
import tempfile
import threading
import time
from pathlib import Path

import scale

TARGET = "iqn.2026-11.org.linerate:disk"
SUBSYSTEM = "nqn.2026-11.org.linerate:disk"
HOST = "nqn.2014-08.org.nvmexpress:uuid:6f3cf5e9-3b4a-4b6e-9d3f-0123456789ab"
# How long a hostile peer waits before it comes back, and how long peers get to come before the client's rate is taken.
RETURN, SETTLE = 0.05, 1.0
# How much longer than it measures a client may take: to connect, and until commands without an answer are given up.
MARGIN = 90.0
LEAST = 0.5


def exactly(stream, count):
    data = b""
    while len(data) < count:
        more = stream.recv(count - len(data))
        if not more:
            raise OSError("closed")
        data += more
    return data


def iscsi_login(stream):
    """Logs in without authentication, and answers the CmdSN to go on with."""
    keys = f"InitiatorName=iqn.2026-11.org.hostile:{id(stream)}\0SessionType=Normal\0TargetName={TARGET}\0InitialR2T=Yes\0ImmediateData=No\0".encode()
    header = struct.pack(">BBHI", 0x43, 0x87, 0, len(keys)) + struct.pack(">6sHIHHII16x", id(stream).to_bytes(8, "big")[2:], 0, 1, 0, 0, 1, 0)
    stream.sendall(header + keys + b"\0" * (-len(keys) % 4))
    answer = exactly(stream, 48)
    length = int.from_bytes(answer[5:8], "big")
    exactly(stream, length + -length % 4)
    if answer[0] != 0x23 or answer[36:38] != b"\0\0":
        raise OSError("the login failed")
    return 1


def iscsi_unread(stream):
    command = iscsi_login(stream)
    data = b"x" * 8192
    # Immediate: pings do not wait for the window.
    ping = struct.pack(">BBHI8xIIII16x", 0x40, 0x80, 0, len(data), 7, 0xFFFFFFFF, command, 1) + data
    while True:
        stream.sendall(ping)


def iscsi_dataless(stream):
    command = iscsi_login(stream)
    for number in range(128):
        cdb = struct.pack(">BBIBHB6x", 0x2A, 0, number * 256, 0, 256 * 8, 0)
        stream.sendall(struct.pack(">BBHI8xIIII16s", 0x01, 0xA0, 0, 0, number, 1 << 20, command + number, 1, cdb))
    keep(stream)


def nvme_capsule(entry, data=b""):
    return struct.pack("<BBBBI", 4, 0, 72, 72 if data else 0, 72 + len(data)) + entry + data


def nvme_connect(stream, queue, controller=0xFFFF):
    stream.sendall(struct.pack("<BBBBIHBBI112x", 0, 0, 128, 0, 128, 0, 0, 0, 0))
    exactly(stream, 128)
    data = bytes(range(16)) + struct.pack("<H238x256s256s256x", controller, SUBSYSTEM.encode(), HOST.encode())
    entry = struct.pack("<BBHB19xQIBBBB", 0x7F, 0x40, 0, 1, 0, len(data), 0, 0, 0, 1) + struct.pack("<HHHBBI12x", 0, queue, 127, 0, 0, 0)
    stream.sendall(nvme_capsule(entry, data))
    answer = exactly(stream, 24)
    if struct.unpack("<H", answer[22:24])[0] >> 1:
        raise OSError("the connect failed")
    return struct.unpack("<H", answer[8:10])[0]


def nvme_enable(stream):
    controller = nvme_connect(stream, 0)
    # CC.EN with the usual sizes.
    stream.sendall(nvme_capsule(struct.pack("<BBHB35xBxxxIQ8x", 0x7F, 0x40, 1, 0, 0, 0x14, 0x460001)))
    exactly(stream, 24)
    return controller


def nvme_command(opcode, number, namespace, length, words):
    # A transport SGL: the data comes and goes with PDUs.
    return nvme_capsule(struct.pack("<BBHI16xQI3xB", opcode, 0x40, number, namespace, 0, length, 0x5A) + struct.pack("<6I", *words))


def nvme_unread(stream):
    nvme_enable(stream)
    # Many at a time, so that what these peers take of the processors until nothing more is read does not count.
    commands = b"".join(nvme_command(0x06, number, 0, 4096, (1, 0, 0, 0, 0, 0)) for number in range(100)) * 10
    while True:
        stream.sendall(commands)


def nvme_dataless(stream):
    controller = nvme_enable(stream)
    with socket.create_connection(stream.getpeername()) as queue:
        nvme_connect(queue, 1, controller)
        for number in range(100):
            queue.sendall(nvme_command(0x01, number, 1, 1 << 20, (number * 2048, 0, 2047, 0, 0, 0)))
        keep(queue)


def keep(stream):
    """Reads nothing, until the server has closed the connection."""
    poller = select.poll()
    poller.register(stream, select.POLLRDHUP)
    poller.poll()


def silent(stream):
    keep(stream)


KINDS = {
    "iscsi": {"silent": silent, "unread": iscsi_unread, "dataless": iscsi_dataless},
    "nvme": {"silent": silent, "unread": nvme_unread, "dataless": nvme_dataless},
}


def peer(attack, address, came):
    """One hostile peer, over and over."""
    while True:
        try:
            with socket.create_connection(address, timeout=scale.PATIENCE) as stream:
                came.set()
                attack(stream)
        except OSError:
            pass
        time.sleep(RETURN)


def crowd(protocol, kind, address, peers, came):
    threads = [threading.Thread(target=peer, args=(KINDS[protocol][kind], address, came), daemon=True) for _ in range(peers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def rate(options, url):
    words = ("--qd", "32", "--ramp", "0.5", "--runtime", str(options.seconds))
    load = scale.bench(options.program, [url], *words, processor=1)
    return scale.result(load, seconds=options.seconds + MARGIN)["iops"]


def measure(options, protocol, kind):
    """The client's rates alone and beside the peers, in turn."""
    with tempfile.TemporaryDirectory() as folder:
        limits = Path(folder) / "limits.toml"
        limits.write_text('[limits]\nmemory = "64M"\n')
        server = scale.Server(options.program, folder, processor=0, more=("--config", str(limits)))
        try:
            url = server.url(protocol)
            return [(rate(options, url), beside(options, (protocol, kind), url)) for _ in range(options.rounds)]
        finally:
            server.stop()


def beside(options, hostile, url):
    """The client's rate beside hostile peers, which are gone afterwards."""
    host, port = url.split("/")[2].rsplit(":", 1)
    came = multiprocessing.Event()
    process = multiprocessing.Process(target=crowd, args=(*hostile, (host, int(port)), options.peers, came), daemon=True)
    process.start()
    try:
        if not came.wait(scale.PATIENCE):
            raise SystemExit(f"hostile: no {hostile[1]} peer could connect")
        time.sleep(SETTLE)
        return rate(options, url)
    finally:
        process.terminate()
        process.join(scale.PATIENCE)
        if process.is_alive():
            process.kill()
            process.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="target/release/linerate")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", type=int, default=100)
    options = parser.parse_args()
    print("| protocol | hostile peers | 4K reads a second alone | beside them | ratio (least to most) |\n|---|---|---|---|---|")
    least = 1.0
    for protocol, kinds in KINDS.items():
        for kind in kinds:
            pairs = measure(options, protocol, kind)
            ratios = [beside / alone for alone, beside in pairs]
            alone, beside, ratio = (statistics.median(values) for values in ([pair[0] for pair in pairs], [pair[1] for pair in pairs], ratios))
            least = min(least, ratio)
            print(f"| {scale.SERVERS[protocol]} | {options.peers} {kind} | {alone:,.0f} | {beside:,.0f} | {ratio:.2f} ({min(ratios):.2f} to {max(ratios):.2f}) |", flush=True)
    if least < LEAST:
        sys.exit(f"hostile: a client keeps {least:.2f} of its rate, less than one half")


if __name__ == "__main__":
    main()
