"""A vhost-user front end with one split queue, which can break every rule of its queue and of its memory (virtio 1.2 §2.7, §5.2; vhost-user of QEMU's documentation)."""
import array
import mmap
import os
import select
import socket
import struct
import time

(GET_FEATURES, SET_FEATURES, SET_OWNER, SET_VRING_NUM, SET_VRING_ADDR, SET_VRING_BASE, GET_VRING_BASE, SET_VRING_KICK, SET_VRING_CALL, SET_VRING_ERR,
 GET_PROTOCOL_FEATURES, SET_PROTOCOL_FEATURES, SET_VRING_ENABLE, GET_CONFIG, ADD_MEM_REG) = 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 24, 37
VERSION, REPLY, NEED_REPLY = 1, 4, 8
PROTOCOL_MQ, PROTOCOL_REPLY_ACK, PROTOCOL_CONFIG, PROTOCOL_MEM_SLOTS = 1 << 0, 1 << 3, 1 << 9, 1 << 15
VERSION_1, PROTOCOL, INDIRECT = 1 << 32, 1 << 30, 1 << 28
NEXT, WRITE, INDIRECT_FLAG = 1, 2, 4
READ, WRITE_OUT, FLUSH = 0, 1, 4

GUEST, USER = 0x10_0000, 0x7000_0000_0000
# Where the parts of the memory lie: table, available ring, used ring, then requests.
TABLE, AVAILABLE, USED, DATA = 0, 0x8000, 0x9000, 0x1_0000
MEMORY = 4 << 20
ANSWER_SECONDS = 20


class FrontEnd:
    """A connection, its memory, and its queue."""

    def __init__(self, path, *, size=16, memory=MEMORY):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(ANSWER_SECONDS)
        self.socket.connect(str(path))
        self.size = size
        self.file = os.memfd_create("guest")
        os.ftruncate(self.file, memory)
        self.memory = mmap.mmap(self.file, memory)
        self.events = {name: os.eventfd(0, os.EFD_NONBLOCK) for name in ("kick", "call", "err")}
        self.available = self.used = 0
        self.features = self.ask(GET_FEATURES)
        self.tell(SET_PROTOCOL_FEATURES, struct.pack("=Q", PROTOCOL_MQ | PROTOCOL_REPLY_ACK | PROTOCOL_CONFIG | PROTOCOL_MEM_SLOTS), reply=False)
        self.tell(SET_OWNER)
        self.tell(SET_FEATURES, struct.pack("=Q", VERSION_1 | PROTOCOL | INDIRECT))

    def close(self):
        """Leaves."""
        self.socket.close()
        self.memory.close()
        for descriptor in (self.file, *self.events.values()):
            os.close(descriptor)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, request, payload=b"", *, flags=VERSION, file=None, size=None):
        """One message, true or not."""
        header = struct.pack("=III", request, flags, len(payload) if size is None else size)
        beside = [] if file is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file]))]
        self.socket.sendmsg([header + payload], beside)

    def receive(self, request):
        """The payload of an answer."""
        header = self.take(12)
        answered, flags, size = struct.unpack("=III", header)
        if answered != request or not flags & REPLY:
            raise RuntimeError(f"request {request} was answered as {answered} with flags {flags:#x}")
        return self.take(size)

    def take(self, count):
        """So many bytes, whole."""
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    def ask(self, request, payload=b""):
        """A number."""
        self.send(request, payload)
        return struct.unpack("=Q", self.receive(request))[0]

    def tell(self, request, payload=b"", *, file=None, reply=True):
        """True if the device consents."""
        self.send(request, payload, flags=VERSION | (NEED_REPLY if reply else 0), file=file)
        return not reply or struct.unpack("=Q", self.receive(request))[0] == 0

    def lend(self, *, length=None, offset=0, guest=GUEST, user=USER):
        """Lends memory."""
        region = struct.pack("=QQQQQ", 0, guest, length if length is not None else len(self.memory), user, offset)
        return self.tell(ADD_MEM_REG, region, file=self.file)

    def start(self, *, table=TABLE, available=AVAILABLE, used=USED, base=0):
        """Has the queue served."""
        consents = [
            self.tell(SET_VRING_NUM, struct.pack("=II", 0, self.size)),
            self.tell(SET_VRING_BASE, struct.pack("=II", 0, base)),
            self.tell(SET_VRING_ADDR, struct.pack("=IIQQQQ", 0, 0, USER + table, USER + used, USER + available, 0)),
            self.tell(SET_VRING_CALL, struct.pack("=Q", 0), file=self.events["call"]),
            self.tell(SET_VRING_ERR, struct.pack("=Q", 0), file=self.events["err"]),
            self.tell(SET_VRING_KICK, struct.pack("=Q", 0), file=self.events["kick"]),
            self.tell(SET_VRING_ENABLE, struct.pack("=II", 0, 1)),
        ]
        return all(consents)

    def describe(self, number, address, length, flags=0, following=0, *, table=TABLE):
        """One descriptor."""
        self.memory[table + 16 * number:table + 16 * number + 16] = struct.pack("<QIHH", address, length, flags, following)

    def offer(self, head, *, count=1):
        """Makes a buffer available, and notifies."""
        place = AVAILABLE + 4 + 2 * (self.available % self.size)
        self.memory[place:place + 2] = struct.pack("<H", head)
        self.available = (self.available + count) & 0xffff
        self.memory[AVAILABLE + 2:AVAILABLE + 4] = struct.pack("<H", self.available)
        self.kick()

    def kick(self):
        """Notifies the device."""
        os.eventfd_write(self.events["kick"], 1)

    def header(self, kind, sector):
        """A request's header, in its place."""
        self.memory[DATA:DATA + 16] = struct.pack("<IIQ", kind, 0, sector)

    def request(self, kind, sector=0, data=b"", *, room=0):
        """A request as it should be; its status, and what was read."""
        self.header(kind, sector)
        place, status = DATA + 4096, DATA + 512
        self.memory[place:place + len(data)] = data
        self.memory[status] = 0xee
        length = room or len(data)
        self.describe(0, GUEST + DATA, 16, NEXT, 1 if length else 2)
        self.describe(1, GUEST + place, length, NEXT | (WRITE if room else 0), 2)
        self.describe(2, GUEST + status, 1, WRITE)
        self.offer(0)
        self.wait()
        return self.memory[status], bytes(self.memory[place:place + room])

    def wait(self, seconds=ANSWER_SECONDS):
        """Until the device has used one more buffer."""
        end = time.monotonic() + seconds
        while struct.unpack("<H", self.memory[USED + 2:USED + 4])[0] == self.used:
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError("the device used no buffer")
            select.select([self.events["call"]], [], [], min(left, 0.05))
        self.used = (self.used + 1) & 0xffff

    def is_broken(self, seconds=ANSWER_SECONDS):
        """Whether the device says that it serves the queue no longer."""
        return bool(select.select([self.events["err"]], [], [], seconds)[0])
