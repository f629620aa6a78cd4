"""A TCP proxy that writes what passes as a capture file, so that an ordinary user can record (capturing an interface needs privileges).

Each direction becomes TCP segments of its own making, in sequence and without loss, over made-up IPv4 headers of link type "raw IP": just what
a dissector needs to follow the streams. The server's side keeps its real port, so that one decode rule names the protocol.

Where messages begin within segments depends on how fast the proxy reads. A dissector that wants each message to begin a segment, as that of MPA does, gets
segments of whole messages: `message` says how long the first one is.
"""
import contextlib
import socket
import struct
import threading
import time

RAW_IP = 101
# The address that clients are recorded with, so that they are told from the server.
CLIENT = "127.0.0.2"
# Bytes in one recorded segment: an IPv4 packet's length has 16 bits, and the longest FPDU of a loopback stream fits.
SEGMENT = 65_495
SYN, ACK_PUSH, FIN_ACK, SYN_ACK = 0x02, 0x18, 0x11, 0x12


# Bytes of an MPA request or reply before its private data.
MPA_FRAME = 20


def fpdu(data):
    """Bytes of the first MPA frame or FPDU without markers in `data` (RFC 5044 §4, §7.1.1), or 0 if they do not say yet."""
    if data[:7] == b"MPA ID ":
        return MPA_FRAME + int.from_bytes(data[MPA_FRAME - 2 : MPA_FRAME], "big") if len(data) >= MPA_FRAME else 0
    if len(data) < len("MPA ID "):
        return 0
    length = 2 + int.from_bytes(data[:2], "big")
    return length + -length % 4 + 4


class Capture:
    """A capture file in the classic pcap format. Packets are written as they come, by one thread at a time."""

    def __init__(self, path):
        self.out = path.open("wb")
        self.lock = threading.Lock()
        self.out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, RAW_IP))

    def packet(self, source, target, numbers, flags, payload=b""):
        """One segment from source to target, both (address, port), with (sequence, acknowledgement) numbers."""
        tcp = struct.pack(">HHIIBBHHH", source[1], target[1], *numbers, 5 << 4, flags, 65535, 0, 0)
        ends = socket.inet_aton(source[0]) + socket.inet_aton(target[0])
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp) + len(payload), 0, 0, 64, socket.IPPROTO_TCP, 0)
        packet = ip + ends + tcp + payload
        now = time.time()
        self.out.write(struct.pack("<IIII", int(now), int(now % 1 * 1_000_000), len(packet), len(packet)) + packet)

    def close(self):
        """Ends the file."""
        with self.lock:
            self.out.close()


class Stream:
    """One proxied connection: two sockets, and the sequence numbers of both directions."""

    def __init__(self, capture, client, server, port, message):
        self.capture, self.sockets, self.message = capture, (client, server), message
        # What has come of a message that is not whole yet.
        self.begun = [b"", b""]
        self.ends = ((CLIENT, client.getpeername()[1]), ("127.0.0.1", port))
        self.sequence = [1, 1]
        with capture.lock:
            capture.packet(*self.ends, (0, 0), SYN)
            capture.packet(*reversed(self.ends), (0, 1), SYN_ACK)
        self.threads = [threading.Thread(target=self.pump, args=(way,), daemon=True) for way in (0, 1)]
        for thread in self.threads:
            thread.start()

    def pump(self, way):
        """Moves bytes one way (0: from the client) until that way ends."""
        source, target = self.sockets[way], self.sockets[1 - way]
        try:
            while data := source.recv(256 * 1024):
                # Recorded before it is sent: an answer must not stand before its question.
                self.record(way, data)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            self.cut()
        self.record(way, None)

    def cut(self):
        """Ends both directions; a thread that waits in `recv` wakes up, as it does not when a socket is closed under it."""
        for one in self.sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self):
        """Cuts what still flows, and waits for both threads."""
        self.cut()
        for thread in self.threads:
            thread.join()
        for one in self.sockets:
            one.close()

    def record(self, way, data):
        """Writes data, or the end of a direction, as segments."""
        with self.capture.lock:
            if data is None:
                self.write(way, self.begun[way])
                self.capture.packet(self.ends[way], self.ends[1 - way], (self.sequence[way], self.sequence[1 - way]), FIN_ACK)
            elif self.message is None:
                self.write(way, data)
            else:
                self.write_messages(way, self.begun[way] + data)

    def write_messages(self, way, data):
        """Writes the messages that are whole, each as segments of its own."""
        at = 0
        while (length := self.message(data[at : at + MPA_FRAME])) and at + length <= len(data):
            self.write(way, data[at : at + length])
            at += length
        self.begun[way] = data[at:]

    def write(self, way, data):
        """Writes data as segments."""
        for at in range(0, len(data), SEGMENT):
            piece = data[at : at + SEGMENT]
            self.capture.packet(self.ends[way], self.ends[1 - way], (self.sequence[way], self.sequence[1 - way]), ACK_PUSH, piece)
            self.sequence[way] = (self.sequence[way] + len(piece)) % (1 << 32)


class Recorder:
    """The proxy of one server, as a `with` block. `address` is where clients connect."""

    def __init__(self, path, address, message=None):
        host, port = address.rsplit(":", 1)
        self.message = message
        self.server = (host, int(port))
        self.capture = Capture(path)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.streams = []
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def accept(self):
        """Joins each client with a connection of its own to the server."""
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(self.server)
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.streams.append(Stream(self.capture, client, server, self.server[1], self.message))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()
        for stream in self.streams:
            stream.close()
        self.capture.close()
