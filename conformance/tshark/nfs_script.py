"""Clients of NFS that say what they are told to: every procedure of MOUNT and of version 3, every operation of versions 4.1 and 4.2 that Linerate serves, each once or more.

Tools use a few of them. These calls have one purpose, that each call and each answer be on the wire once; what comes back is demanded to be a success.
RFC 1813; RFC 8881 and RFC 7862, with the types of RFC 5662 and RFC 7863.
"""
import socket
import struct

NFS, MOUNT = 100_003, 100_005
TIME_LIMIT = 30
READ, WRITE, BOTH = 1, 2, 3
# Attributes by number (RFC 8881 §5): type, change, size, fsid, fileid, mode, owner, space_used, time_modify.
SOME_ATTRIBUTES = (1, 3, 4, 8, 20, 33, 36, 45, 53)
SIZE, MODE = 4, 33


def u32(*values):
    """Words."""
    return struct.pack(f">{len(values)}I", *values)


def u64(*values):
    """Double words."""
    return struct.pack(f">{len(values)}Q", *values)


def opaque(data):
    """Bytes with their length."""
    data = data.encode() if isinstance(data, str) else data
    return u32(len(data)) + data + bytes(-len(data) % 4)


def bitmap(*numbers):
    """`bitmap4`."""
    words = [0] * (max(numbers) // 32 + 1) if numbers else []
    for number in numbers:
        words[number // 32] |= 1 << number % 32
    return u32(len(words), *words)


class Answer:
    """What has come, read from the front."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, length):
        """So many bytes."""
        self.at += length
        return self.data[self.at - length : self.at]

    def u32(self):
        """A word."""
        return int.from_bytes(self.take(4), "big")

    def opaque(self):
        """Bytes with their length."""
        length = self.u32()
        data = self.take(length)
        self.take(-length % 4)
        return data

    def words(self):
        """An array of words."""
        return [self.u32() for _ in range(self.u32())]


class Connection:
    """ONC RPC over TCP (RFC 5531 §11), with AUTH_SYS as the user 0."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=TIME_LIMIT)
        self.xid = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def receive(self, length):
        """Exactly so many bytes."""
        data = b""
        while len(data) < length:
            more = self.socket.recv(length - len(data))
            if not more:
                raise RuntimeError("the server has closed the connection")
            data += more
        return data

    def call(self, program, version, procedure, arguments=b""):
        """A call, and the results of its answer."""
        self.xid += 1
        credential = u32(0) + opaque("script") + u32(0, 0, 0)
        record = u32(self.xid, 0, 2, program, version, procedure, 1) + opaque(credential) + u32(0, 0) + arguments
        self.socket.sendall(u32(0x8000_0000 | len(record)) + record)
        answer = Answer(self.receive(int.from_bytes(self.receive(4), "big") & 0x7FFF_FFFF))
        head = answer.take(12)
        answer.u32()
        answer.opaque()
        if head != u32(self.xid, 1, 0) or answer.u32() != 0:
            raise RuntimeError(f"procedure {procedure} of {program} is not accepted")
        return answer


def version3(address, share):
    """MOUNT and version 3: every procedure."""
    with Connection(address) as connection:
        mount(connection, share)
        Version3(connection, share).run()


def mount(connection, share):
    """All of MOUNT that gives no handle (RFC 1813 appendix I)."""
    path = opaque(f"/{share}")
    for procedure, arguments in ((0, b""), (2, b""), (3, path), (4, b""), (5, b"")):
        connection.call(MOUNT, 3, procedure, arguments)


class Version3:
    """A client of version 3 (RFC 1813 §3.3)."""

    def __init__(self, connection, share):
        self.connection = connection
        answer = connection.call(MOUNT, 3, 1, opaque(f"/{share}"))
        if answer.u32() != 0:
            raise RuntimeError(f"{share} cannot be mounted")
        self.root = answer.opaque()

    def call(self, procedure, arguments=b""):
        """A call that must succeed."""
        answer = self.connection.call(NFS, 3, procedure, arguments)
        status = answer.u32() if procedure else 0
        if status != 0:
            raise RuntimeError(f"procedure {procedure}: {status}")
        return answer

    def place(self, name):
        """`diropargs3` in the root."""
        return opaque(self.root) + opaque(name)

    def handle(self, name):
        """The handle of a name in the root."""
        return self.call(3, self.place(name)).opaque()

    def run(self):
        """Every procedure, by its number."""
        root, nothing, mode = opaque(self.root), u32(0, 0, 0, 0, 0, 0), u32(1, 0o644, 0, 0, 0, 0, 0)
        self.call(0)
        self.call(1, root)
        self.call(8, self.place("v3") + u32(0) + mode)
        self.call(8, self.place("v3 guarded") + u32(1) + mode)
        self.call(8, self.place("v3 exclusive") + u32(2) + b"verifier")
        file = opaque(self.handle("v3"))
        self.call(2, file + u32(1, 0o600, 0, 0, 1) + u64(10) + u32(1, 1, 0))
        self.call(4, file + u32(0x3F))
        for stable in (0, 1, 2):
            self.call(7, file + u64(stable * 4) + u32(4, stable) + opaque("data"))
        self.call(21, file + u64(0) + u32(0))
        self.call(6, file + u64(0) + u32(4096))
        self.call(9, self.place("v3 folder") + u32(1, 0o755, 0, 0, 0, 0, 0))
        self.call(10, self.place("v3 link") + nothing + opaque("target"))
        self.call(5, opaque(self.handle("v3 link")))
        self.call(11, self.place("v3 pipe") + u32(7) + mode)
        self.call(15, file + self.place("v3 second"))
        self.call(16, root + u64(0, 0) + u32(4096))
        self.call(17, root + u64(0, 0) + u32(4096, 16384))
        for procedure in (18, 19, 20):
            self.call(procedure, root)
        self.call(14, self.place("v3 second") + self.place("v3 moved"))
        for name in ("v3", "v3 guarded", "v3 exclusive", "v3 link", "v3 pipe", "v3 moved"):
            self.call(12, self.place(name))
        self.call(13, self.place("v3 folder"))


def stateid(answer):
    """`stateid4`."""
    return answer.take(16)


def opened(answer):
    """The result of OPEN without a delegation: its stateid."""
    found = stateid(answer)
    answer.take(24)
    answer.words()
    if answer.u32() not in (0, 3):
        raise RuntimeError("a delegation")
    return found


def changed(answer):
    """`change_info4`."""
    answer.take(20)


def created(answer):
    """The result of CREATE."""
    changed(answer)
    answer.words()


def copied(answer):
    """The result of COPY (RFC 7862 §15.2.2)."""
    for _ in range(answer.u32()):
        stateid(answer)
    answer.take(8 + 4 + 8 + 8)


# What of a result has to be read to get at the next one.
RESULTS = {
    3: lambda answer: answer.take(8),
    4: stateid,
    5: lambda answer: answer.take(8),
    6: created,
    9: lambda answer: (answer.words(), answer.opaque()),
    10: Answer.opaque,
    11: changed,
    12: stateid,
    14: stateid,
    18: opened,
    21: stateid,
    25: lambda answer: (answer.u32(), answer.opaque()),
    27: Answer.opaque,
    28: changed,
    29: lambda answer: (changed(answer), changed(answer)),
    33: Answer.words,
    34: Answer.words,
    38: lambda answer: answer.take(16),
    41: lambda answer: answer.take(24),
    42: lambda answer: struct.unpack(">QI", answer.take(12)),
    43: lambda answer: answer.take(16),
    52: Answer.words,
    53: lambda answer: answer.take(36),
    55: Answer.words,
    60: copied,
    69: lambda answer: answer.take(12),
}
# Operations whose results are not read to their end: nothing may stand behind them.
LAST = (26, 42, 43)


class Version4:
    """A client of version 4 with one session and one slot (RFC 8881 §18)."""

    def __init__(self, connection, minor):
        self.connection, self.minor, self.sequence, self.session = connection, minor, 0, None
        owner = b"script " + bytes(str(minor), "ascii")
        [(self.client, sequence)] = self.call((42, b"verifier" + opaque(owner) + u32(0, 0, 0)))
        channel = u32(0, 1 << 20, 1 << 20, 4096, 32, 4, 0)
        [self.session] = self.call((43, u64(self.client) + u32(sequence, 0) + channel + channel + u32(0x4000_0000, 1, 0)))

    def call(self, *operations, alone=False):
        """A COMPOUND whose operations, each (number, arguments), must succeed; what they came to."""
        if self.session and not alone:
            self.sequence += 1
            operations = ((53, self.session + u32(self.sequence, 0, 0, 1)), *operations)
        body = b"".join(u32(number) + arguments for number, arguments in operations)
        answer = self.connection.call(NFS, 4, 1, opaque("script") + u32(self.minor, len(operations)) + body)
        if (status := answer.u32()) != 0:
            raise RuntimeError(f"{[number for number, _ in operations]} of 4.{self.minor}: {status}")
        answer.opaque()
        answer.u32()
        found = []
        for number, _ in operations:
            if (answer.u32(), answer.u32()) != (number, 0):
                raise RuntimeError(f"no result of {number}")
            found.append(RESULTS[number](answer) if number in RESULTS else None)
            if number in LAST:
                break
        return found[1:] if operations[0][0] == 53 else found

    def at(self, handle, *operations):
        """The same with a handle; what the last operation came to."""
        return self.call((22, opaque(handle)), *operations)[-1]

    def open(self, handle, name, how, share=(BOTH, 0)):
        """OPEN by name."""
        owner = u64(self.client) + opaque(f"owner of {name}")
        return self.call((22, opaque(handle)), (18, u32(0, *share) + owner + how + u32(0) + opaque(name)), (10, b""))[1:]

    def run(self, share):
        """Every operation that both minor versions have."""
        mode = bitmap(MODE) + opaque(u32(0o644))
        self.call((58, u32(0)))
        self.call((41, self.session + u32(1, 0)), alone=True)
        self.call((23, b""), (9, bitmap(*SOME_ATTRIBUTES)))
        [*_, root] = self.call((24, b""), (15, opaque(share)), (10, b""))
        self.at(root, (16, b""), (9, bitmap(0, 1, 2)))
        # What a downgrade goes back to must have been opened (RFC 8881 §18.18.3).
        self.open(root, "v4", u32(1, 0) + mode, (READ, 0))
        stateid, file = self.open(root, "v4", u32(0))
        others = [self.open(root, "v4 guarded", u32(1, 1) + mode), self.open(root, "v4 exclusive", u32(1, 3) + b"verifier" + mode)]
        self.data(file, stateid)
        self.locks(file, stateid)
        self.at(file, (21, stateid + u32(0, READ, 0)))
        # Seqid 0: the newest.
        for opened_by, opened_file in [(stateid, file), *others]:
            self.at(opened_file, (4, u32(0, 0) + opened_by[4:]))
        self.names(root, file)
        self.at(root, (33, opaque("v4")))
        self.at(root, (52, u32(0)))

    def data(self, file, stateid):
        """READ, WRITE and what concerns attributes."""
        for stable in (0, 1, 2):
            self.at(file, (38, stateid + u64(stable * 4) + u32(stable) + opaque("data")))
        self.at(file, (5, u64(0) + u32(0)))
        self.at(file, (25, stateid + u64(0) + u32(4096)))
        self.at(file, (3, u32(0x3F)))
        self.at(file, (34, stateid + bitmap(SIZE) + opaque(u64(4096))), (9, bitmap(*SOME_ATTRIBUTES)))
        self.at(file, (37, bitmap(SIZE) + opaque(u64(4096))), (17, bitmap(SIZE) + opaque(u64(1))))
        if self.minor < 2:
            return
        self.at(file, (59, stateid + u64(0, 8192)))
        self.at(file, (62, stateid + u64(4096, 4096)))
        for what in (0, 1):
            self.at(file, (69, stateid + u64(0) + u32(what)))
        self.at(file, (32, b""), (60, stateid + stateid + u64(0, 65536, 4096) + u32(1, 1, 0)))

    def locks(self, file, stateid):
        """LOCK, LOCKT, LOCKU, TEST_STATEID, FREE_STATEID."""
        owner = u64(self.client) + opaque("lock owner")
        lock = self.at(file, (12, u32(WRITE, 0) + u64(0, 100) + u32(1, 0) + stateid + u32(0) + owner))
        lock = self.at(file, (12, u32(READ, 0) + u64(200, 100) + u32(0) + lock + u32(0)))
        self.at(file, (13, u32(WRITE) + u64(0, 50) + owner))
        lock = self.at(file, (14, u32(WRITE, 0) + lock + u64(0, 2**64 - 1)))
        self.call((55, u32(2) + stateid + lock))
        self.call((45, lock))

    def names(self, root, file):
        """Names and directories."""
        mode = bitmap(MODE) + opaque(u32(0o755))
        self.at(root, (6, u32(2) + opaque("v4 folder") + mode))
        self.at(root, (6, u32(5) + opaque("target") + opaque("v4 link") + bitmap() + opaque(b"")))
        self.at(root, (15, opaque("v4 link")), (27, b""))
        self.at(file, (32, b""), (22, opaque(root)), (11, opaque("v4 second")), (31, b""), (9, bitmap(1, 35)))
        self.at(root, (26, u64(0) + bytes(8) + u32(4096, 16384) + bitmap(*SOME_ATTRIBUTES)))
        self.at(root, (32, b""), (29, opaque("v4 second") + opaque("v4 moved")))
        for name in ("v4 moved", "v4 link", "v4 folder"):
            self.at(root, (28, opaque(name)))

    def end(self, root_share):
        """Removes what was made, and ends."""
        [*_, root] = self.call((24, b""), (15, opaque(root_share)), (10, b""))
        for name in ("v4", "v4 guarded", "v4 exclusive"):
            self.at(root, (28, opaque(name)))
        self.call((44, self.session), alone=True)
        self.call((57, u64(self.client)), alone=True)


def version4(address, share, minor):
    """Version 4: every operation that is served."""
    with Connection(address) as connection:
        client = Version4(connection, minor)
        client.run(share)
        client.end(share)
