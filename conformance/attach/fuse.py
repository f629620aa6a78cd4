#!/usr/bin/env python3
"""`linerate attach --as fuse` in the eyes of the kernel: reads and writes of any bytes, ext4 on a loop device, PostgreSQL, and kill -9.

`fuse.py [--test NAME]`. The volumes are disks of a `linerate serve`, over iSCSI and over NVMe/TCP. Needs /dev/fuse; what makes loop devices and mounts
needs root. What cannot run here is left out by its name, with the reason.
"""
import argparse
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "device")]
from adapter import Attach  # noqa: E402
from harness import Account, Linerate, temporary_folder  # noqa: E402
from loop import ensure_node, obstacle, tool  # noqa: E402

MIB = 1 << 20
SIZE = 64 * MIB
PUNCH = ("fallocate", "--punch-hole")


class Loop:
    """A loop device on a file, as a `with` block. It lets the file go at its last close, so that it cannot be left behind."""

    def __init__(self, path):
        ensure_node()
        self.path = tool("losetup", "--find", "--show", "--direct-io=on", path)
        try:
            self.handle = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        finally:
            tool("losetup", "--detach", self.path)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.handle)


@contextmanager
def mounted(device, folder):
    """A mounted file system."""
    folder.mkdir(exist_ok=True)
    tool("mount", device, folder)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], capture_output=True, timeout=120)
        # Whatever still has files open there has died with its volume.
        subprocess.run(["umount", "--lazy", folder], capture_output=True, timeout=120)


def expect(what, found, wanted):
    """Fails unless both are equal."""
    if found != wanted:
        raise RuntimeError(f"{what}: {found!r} instead of {wanted!r}")


def any_bytes(folder, url):
    """Reads and writes of any offset and length, by several threads in the same blocks, and holes: no update is lost."""
    with Attach(folder, url, "fuse", "disk"):
        path = folder / "disk"
        expect("size", path.stat().st_size, SIZE)
        model = bytearray(2 * MIB)
        handle = os.open(path, os.O_RDWR)
        os.pwrite(handle, model, 0)

        def write(thread):
            # Each thread has its own bytes of every block.
            source = random.Random(thread)
            for _ in range(300):
                block = source.randrange(64)
                start = block * 512 + thread * 128 + source.randrange(64)
                data = source.randbytes(source.randrange(1, 64))
                model[start:start + len(data)] = data
                expect("bytes written", os.pwrite(handle, data, start), len(data))

        threads = [threading.Thread(target=write, args=(thread,)) for thread in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        source = random.Random(9)
        for _ in range(200):
            start, length = source.randrange(MIB), source.randrange(1, 70000)
            kind = source.randrange(3)
            if kind == 0:
                data = source.randbytes(length)
                os.pwrite(handle, data, start)
                model[start:start + length] = data
            elif kind == 1:
                tool(*PUNCH, "--offset", start, "--length", length, path)
                model[start:start + length] = bytes(length)
            else:
                expect(f"{length} bytes at {start}", os.pread(handle, length, start), bytes(model[start:start + length]))
        os.fsync(handle)
        expect("all bytes", os.pread(handle, len(model), 0) == bytes(model), True)
        expect("a read at the end", os.pread(handle, 100, SIZE - 50), bytes(50))
        expect("a read behind the end", os.pread(handle, 100, SIZE), b"")
        os.close(handle)
    if path.exists():
        raise RuntimeError("the file is still there")


def write_files(folder, seed):
    """Files of many lengths; their digests by name."""
    source = random.Random(seed)
    digests = {}
    for number in range(60):
        data = source.randbytes(source.choice((10, 4096, 70_001, MIB)))
        (folder / f"file{number}").write_bytes(data)
        digests[f"file{number}"] = hashlib.sha256(data).hexdigest()
    os.sync()
    return digests


def check_files(folder, digests):
    """Every file is there, with its content."""
    for name, digest in digests.items():
        expect(name, hashlib.sha256((folder / name).read_bytes()).hexdigest(), digest)


def file_system(folder, url):
    """ext4 on a loop device: made, filled, mounted again, trimmed, checked, also by another adapter."""
    with Attach(folder, url, "fuse", "disk"), Loop(folder / "disk") as loop:
        tool("mkfs.ext4", "-q", "-F", loop.path)
        with mounted(loop.path, folder / "mnt") as mount:
            digests = write_files(mount, 1)
        with mounted(loop.path, folder / "mnt") as mount:
            check_files(mount, digests)
            for number in range(0, 60, 2):
                (mount / f"file{number}").unlink()
                del digests[f"file{number}"]
            tool("fstrim", mount)
        tool("e2fsck", "-f", "-n", loop.path)
    with Attach(folder, url, "fuse", "disk"), Loop(folder / "disk") as loop:
        with mounted(loop.path, folder / "mnt") as mount:
            check_files(mount, digests)


class Writer(threading.Thread):
    """Appends numbered blocks to a file, each durable before the next, until that fails; knows how many were acknowledged."""

    BLOCK = 4096

    def __init__(self, handle, limit):
        super().__init__()
        self.handle, self.limit = handle, limit
        self.acknowledged = 0
        self.error = None
        self.enough = threading.Event()

    def run(self):
        try:
            for number in range(self.limit):
                os.pwrite(self.handle, self.content(number), number * self.BLOCK)
                os.fsync(self.handle)
                self.acknowledged = number + 1
                if self.acknowledged >= 200:
                    self.enough.set()
        except OSError as error:
            self.error = error
        finally:
            self.enough.set()

    def content(self, number):
        """What block `number` holds."""
        return (number + 1).to_bytes(8, "big") * (self.BLOCK // 8)

    def check(self, handle):
        """Every acknowledged block is there."""
        for number in range(self.acknowledged):
            if os.pread(handle, self.BLOCK, number * self.BLOCK) != self.content(number):
                raise RuntimeError(f"block {number} of {self.acknowledged} acknowledged ones is lost")


def ended_under_load(folder, url, number, status):
    """The adapter ends amid writes: its users get an error, and what was acknowledged is there for the next adapter."""
    adapter = Attach(folder, url, "fuse", "disk")
    handle = os.open(folder / "disk", os.O_RDWR)
    writer = Writer(handle, SIZE // Writer.BLOCK)
    writer.start()
    writer.enough.wait()
    expect("exit status", adapter.detach(number), status)
    writer.join()
    with suppress(OSError):  # there is nobody left to tell of the close
        os.close(handle)
    if writer.error is None:
        raise RuntimeError("the writes went on without an adapter")
    if writer.acknowledged < 200:
        raise RuntimeError(f"too few writes to prove anything: {writer.acknowledged}, then {writer.error}")
    with Attach(folder, url, "fuse", "disk"):
        handle = os.open(folder / "disk", os.O_RDONLY)
        writer.check(handle)
        os.close(handle)


class Postgres:
    """A database on a folder, run by the user `postgres`, reached by a socket in another."""

    def __init__(self, data, sockets):
        self.data, self.sockets = data, sockets
        self.bin = max(Path("/usr/lib/postgresql").iterdir(), key=lambda path: int(path.name)) / "bin"
        self.process = None

    def run(self, program, *words, check=True):
        """Runs one of PostgreSQL's programs to its end; its output."""
        command = ["runuser", "-u", "postgres", "--", self.bin / program, *map(str, words)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd="/")
        if check and result.returncode != 0:
            raise RuntimeError(f"{program} ended with {result.returncode}\n{result.stdout}{result.stderr}")
        return result.stdout

    def start(self):
        """Starts the server and waits until it answers."""
        command = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", self.bin / "postgres", "-D", self.data, "-k", self.sockets,
                   "-c", "listen_addresses=", "-c", "shared_buffers=4MB", "-c", "max_wal_size=32MB", "-c", "min_wal_size=32MB"]
        with (self.sockets / "log").open("a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/", start_new_session=True)
        for _ in range(600):
            if "accepting" in self.run("pg_isready", "-h", self.sockets, check=False):
                return
            if self.process.poll() is not None:
                break
            threading.Event().wait(0.1)
        raise RuntimeError(f"PostgreSQL does not answer:\n{(self.sockets / 'log').read_text()[-3000:]}")

    def stop(self, number):
        """Ends the server and its children: they share a session of their own."""
        if self.process and self.process.poll() is None:
            if number == signal.SIGKILL:
                os.killpg(self.process.pid, number)
            else:
                self.process.send_signal(number)
            self.process.wait(120)

    def ask(self, query):
        """The only answer to a query."""
        return self.run("psql", "-h", self.sockets, "-d", "postgres", "-At", "-c", query).strip()


def database(folder, url):
    """pgbench on ext4 on the file; all but the target is killed amid transactions: every acknowledged one is there afterwards."""
    sockets = folder / "sockets"
    sockets.mkdir()
    folder.chmod(0o755)
    shutil.chown(sockets, "postgres")
    postgres = Postgres(folder / "mnt" / "data", sockets)
    adapter = Attach(folder, url, "fuse", "disk")
    try:
        with Loop(folder / "disk") as loop:
            tool("mkfs.ext4", "-q", "-F", loop.path)
            with mounted(loop.path, folder / "mnt") as mount:
                shutil.chown(mount, "postgres")
                postgres.run("initdb", "--auth=trust", "--encoding=UTF8", "--locale=C", "--wal-segsize=1", "-D", postgres.data)
                postgres.start()
                postgres.run("pgbench", "-h", sockets, "-i", "-s", "1", "-q", "postgres")
                load = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", postgres.bin / "pgbench", "-h", sockets, "-n", "-c", "4",
                        "-T", "300", "--log", "--log-prefix", sockets / "transactions", "postgres"]
                with subprocess.Popen(load, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/") as pgbench:
                    while int(postgres.ask("select count(*) from pgbench_history")) < 500:
                        threading.Event().wait(0.2)
                    adapter.process.kill()
                    adapter.process.wait()
                    postgres.stop(signal.SIGKILL)
                    pgbench.wait(120)
    finally:
        postgres.stop(signal.SIGKILL)
        if adapter.process.poll() is None:
            adapter.process.kill()
            adapter.process.wait()
    acknowledged = sum(len(log.read_text().splitlines()) for log in sockets.glob("transactions*"))
    with Attach(folder, url, "fuse", "disk"), Loop(folder / "disk") as loop:
        subprocess.run(["e2fsck", "-p", loop.path], capture_output=True, timeout=300)
        tool("e2fsck", "-f", "-n", loop.path)
        with mounted(loop.path, folder / "mnt"):
            postgres.start()
            try:
                found = int(postgres.ask("select count(*) from pgbench_history"))
                balances = postgres.ask("select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)")
            finally:
                postgres.stop(signal.SIGINT)
    if found < max(acknowledged, 500):
        raise RuntimeError(f"{acknowledged} transactions were acknowledged, {found} are there")
    expect("the accounts agree with the history", balances, "t")


def misuse(folder):
    """Each mistake is told in words."""
    (folder / "full").write_text("something")
    for place in ("full", "."):
        try:
            Attach(folder, "ram:1M", "fuse", place)
        except RuntimeError as error:
            if "is not an empty file" not in str(error):
                raise
        else:
            raise RuntimeError(f"{place} was covered")


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--test", default="", help="only tests whose name has this")
    chosen = arguments.parse_args()
    account = Account("attach-fuse")
    no_fuse = None if os.access("/dev/fuse", os.R_OK | os.W_OK) else "/dev/fuse cannot be opened"
    with temporary_folder() as folder:
        no_loop = no_fuse or obstacle(Path(folder))
    no_database = no_loop or (None if Path("/usr/lib/postgresql").exists() else "PostgreSQL is not installed: apt install postgresql")

    def test(name, reason, function, *words):
        if chosen.test not in name:
            return
        if reason:
            return account.record("skipped", name, reason)
        with account.test(name), temporary_folder() as folder:
            try:
                function(Path(folder), *words)
            finally:  # a failed test may leave its mount
                subprocess.run(["umount", "--lazy", Path(folder) / "disk"], capture_output=True, timeout=60)

    with temporary_folder() as folder, Linerate(folder, ["disk=ram:64M", "large=ram:512M"]) as server:
        for name, url, large in (("iscsi", server.iscsi("disk"), server.iscsi("large")), ("nvme", server.nvme("disk"), server.nvme("large"))):
            test(f"fuse any bytes, {name}", no_fuse, any_bytes, url)
            test(f"fuse ext4, {name}", no_loop, file_system, url)
            test(f"fuse database, killed, {name}", no_database, database, large)
        test("fuse detached under load", no_fuse, ended_under_load, server.nvme("disk"), signal.SIGTERM, 0)
        test("fuse killed under load", no_fuse, ended_under_load, server.iscsi("disk"), signal.SIGKILL, -9)
        test("fuse misuse", no_fuse, misuse)
    return account.close()


if __name__ == "__main__":
    sys.exit(main())
