"""`linerate attach` as a `with` block, and a small NBD client that knows which of its writes were acknowledged."""
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import linerate_binary  # noqa: E402
from harness.servers import STOP_SECONDS, wait_until  # noqa: E402


class Attach:
    """A volume attached as something. Leaving the block detaches it and demands a clean exit."""

    def __init__(self, folder, url, kind, place, *options):
        self.folder = Path(folder)
        self.log = self.folder / f"attach-{kind}.log"
        ready = self.folder / f"attach-{kind}.ready"
        ready.unlink(missing_ok=True)
        command = [linerate_binary(), "attach", url, place, "--as", kind, "--ready-file", ready, *options]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
        try:
            wait_until(ready.exists, self.process, self.log)
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise
        self.place = ready.read_text().split(maxsplit=1)[1].strip()

    @property
    def uri(self):
        """What NBD clients call it."""
        if self.place.startswith("unix:"):
            return f"nbd+unix:///?socket={self.folder / self.place.removeprefix('unix:')}"
        return f"nbd://{self.place}"

    def detach(self, number=signal.SIGTERM):
        """Asks it to stop; its exit status."""
        self.process.send_signal(number)
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise RuntimeError(f"attach did not stop within {STOP_SECONDS} s:\n{self.log.read_text()}") from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is not None:
            return
        status = self.detach()
        if status != 0:
            raise RuntimeError(f"attach stopped with status {status}:\n{self.log.read_text()}")


class NbdWriter:
    """Writes numbered blocks to an export, several at a time, until the connection ends; knows what was acknowledged."""

    BLOCK = 4096
    WINDOW = 32

    def __init__(self, path):
        self.stream = socket.socket(socket.AF_UNIX)
        self.stream.settimeout(60)
        self.stream.connect(str(path))
        self.take(18)
        self.stream.sendall(struct.pack(">IQIIIH", 3, 0x49484156454F5054, 7, 6, 0, 0))
        self.size = 0
        while True:
            _, _, reply, length = struct.unpack(">QIII", self.take(20))
            data = self.take(length)
            if reply == 3 and data[:2] == b"\0\0":
                self.size, = struct.unpack(">Q", data[2:10])
            if reply == 1:
                break
        self.sent = 0
        self.acknowledged = {}

    def take(self, count):
        """So many bytes, whole."""
        data = b""
        while len(data) < count:
            piece = self.stream.recv(count - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    def content(self, number):
        """What write `number` writes."""
        return struct.pack(">Q", number + 1) * (self.BLOCK // 8)

    def place(self, number):
        """Which block write `number` goes to: all in turn, so that none is under way twice."""
        return number % (self.size // self.BLOCK)

    def run(self, enough):
        """Writes until the server ends the connection; calls `enough(acknowledged)` after each reply."""
        try:
            while True:
                while self.sent - len(self.acknowledged) < self.WINDOW:
                    number = self.sent
                    header = struct.pack(">IHHQQI", 0x25609513, 0, 1, number, self.place(number) * self.BLOCK, self.BLOCK)
                    self.stream.sendall(header + self.content(number))
                    self.sent += 1
                _, error, cookie = struct.unpack(">IIQ", self.take(16))
                if error:
                    raise RuntimeError(f"write {cookie} ended with error {error}")
                self.acknowledged[cookie] = self.place(cookie)
                enough(len(self.acknowledged))
        except (EOFError, ConnectionError):
            self.stream.close()

    def check(self, read):
        """Compares every block with its newest acknowledged write, or a later one that was sent. `read(offset, length)` reads the volume."""
        newest = {}
        for number in sorted(self.acknowledged):
            newest[self.place(number)] = number
        for block, number in newest.items():
            data = read(block * self.BLOCK, self.BLOCK)
            rivals = range(number, self.sent, self.size // self.BLOCK)
            if not any(data == self.content(rival) for rival in rivals):
                raise RuntimeError(f"block {block} lost its acknowledged write {number}: it begins with {data[:16].hex()}")
        return len(newest)
