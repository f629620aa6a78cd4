#!/usr/bin/env python3
"""What clients meet when the server fails: killed, frozen, cut off. Their I/O goes on, or ends as docs/volume-contract.md says.

Every test copies a file from or to a volume over iSCSI or NVMe/TCP, slowly enough for something to happen in the middle, and compares every byte
afterwards. Time is asserted nowhere but against the documented bound, with a minute's grace for a busy machine. Cutting links needs
network namespaces, and with them root; without it those tests are left out by name.
"""
import argparse
import os
import secrets
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent))
from harness import Account, linerate_binary, temporary_folder  # noqa: E402
from harness.servers import SUBSYSTEM, TARGET, free_port, wait_until  # noqa: E402

SIZE = 24 << 20
# Bytes a second: the copy takes about six seconds, in which things happen.
PACE = "limit=4M/s+"
# Bytes that must have gone over before anything happens to them.
WELL_BEGUN = 2 << 20
# Seconds for whatever has no bound of its own, and of grace for what has one.
PATIENCE = 120
GRACE = 60
# docs/volume-contract.md: no request takes longer than this, in seconds, with the default `timeout` and `reconnect`.
BOUND = 135
# What a failing flush says after a reconnect.
LOSS = "may have lost what was written"
PROTOCOLS = ("iscsi", "nvme")


def demand(true, words, detail=""):
    """Fails the test with these words unless the condition holds."""
    if not true:
        raise RuntimeError(f"{words}\n{detail}" if detail else words)


class Server:
    """`linerate serve` with one file volume, which can be killed and started again at the same ports."""

    def __init__(self, folder, address="127.0.0.1", inside=()):
        self.folder, self.inside = Path(folder), list(inside)
        self.image = self.folder / "disk.img"
        self.portals = {"iscsi": f"{address}:{free_port()}", "nvme": f"{address}:{free_port()}"}
        self.start()

    def start(self):
        """Starts it, and waits until it listens; again and again while the kernel still holds the ports for the one that was killed."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return self.start_once()
            except RuntimeError as error:
                if "Address already in use" not in str(error) or time.monotonic() > deadline:
                    raise

    def start_once(self):
        """Starts it, and waits until it listens."""
        ready, log = self.folder / "ready", self.folder / "server.log"
        ready.unlink(missing_ok=True)
        log.unlink(missing_ok=True)
        command = [*self.inside, linerate_binary(), "serve", f"disk=file:{self.image}?size={SIZE}", "--ready-file", ready, "--allow-any", "--state", self.folder / "state",
                   "--iscsi", self.portals["iscsi"], "--nvme", self.portals["nvme"]]
        with log.open("a") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out, cwd=self.folder)
        wait_until(ready.exists, self.process, log)

    def kill(self):
        """Ends it as `kill -9` does."""
        self.process.kill()
        self.process.wait()

    def url(self, protocol, **options):
        """The volume's URL."""
        tail = "?" + "&".join(f"{name}={value}" for name, value in options.items()) if options else ""
        name = {"iscsi": f"iscsi://{self.portals['iscsi']}/{TARGET}:disk/0", "nvme": f"nvme+tcp://{self.portals['nvme']}/{SUBSYSTEM}:disk/1"}
        return name[protocol] + tail


class Copy:
    """A `linerate copy` under way."""

    def __init__(self, source, target, watched, inside=()):
        self.watched = watched
        self.before = self.arrived()
        command = [*inside, linerate_binary(), "copy", source, target, "--overwrite"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def arrived(self):
        """Bytes that the file at the far end of the copy has been given."""
        return self.watched.stat().st_blocks * 512 if self.watched.exists() else 0

    def wait_begun(self):
        """Waits until it is well under way: an event, not a time."""
        deadline = time.monotonic() + PATIENCE
        while self.arrived() - self.before < WELL_BEGUN:
            if self.process.poll() is not None:
                raise RuntimeError(f"the copy ended before it was interrupted\n{self.end(None)}")
            demand(time.monotonic() < deadline, "the copy does not get going")
            time.sleep(0.02)
        demand(self.arrived() - self.before < SIZE, "the copy was over before it was interrupted")

    def end(self, succeeds, limit=BOUND + GRACE):
        """Waits for its end within `limit` seconds, and demands a success or a failure, if that matters; what it said."""
        try:
            out, err = self.process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"the copy still hangs after {limit} s") from None
        if succeeds is not None:
            demand((self.process.returncode == 0) == succeeds, f"the copy ended with {self.process.returncode}", out + err)
        return out + err

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def same(one, two):
    """Demands that two files hold the same bytes."""
    left, right = one.read_bytes(), two.read_bytes()
    demand(len(left) == len(right), f"{two.name} has {len(right)} bytes, not {len(left)}")
    if left != right:
        at = next(at for at, (a, b) in enumerate(zip(left, right)) if a != b)
        raise RuntimeError(f"wrong data in {two.name} from byte {at}")


class Scene:
    """A server, its client's place, and the file that is copied."""

    def __init__(self, folder, address="127.0.0.1", served=(), used=()):
        self.folder, self.used = Path(folder), used
        self.source, self.back = self.folder / "source.raw", self.folder / "back.raw"
        self.source.write_bytes(os.urandom(SIZE))
        self.server = Server(folder, address, served)

    def writing(self, protocol, pace=PACE, **options):
        """A copy onto the volume."""
        return Copy(f"file:{self.source}", pace + self.server.url(protocol, **options), self.server.image, self.used)

    def reading(self, protocol, pace=PACE, **options):
        """A copy from the volume."""
        self.back.unlink(missing_ok=True)
        return Copy(pace + self.server.url(protocol, **options), f"file:{self.back}?size={SIZE}", self.back, self.used)

    def fill(self, protocol):
        """Puts the file onto the volume, undisturbed."""
        with self.writing(protocol, pace="") as copy:
            copy.end(True)

    def check(self, protocol):
        """Reads the volume over the network, undisturbed, and compares every byte."""
        with self.reading(protocol, pace="") as copy:
            copy.end(True)
        same(self.source, self.back)

    def settle(self, protocol, said, ended):
        """After writes that were disturbed: all is well, or the flush said that something may be lost. Nothing is wrong either way."""
        demand(ended == 0 or LOSS in said, "the copy failed otherwise than by its flush", said)
        if ended != 0:
            demand("flush" in said, "the loss was not told by a flush", said)
        self.check(protocol)


@contextmanager
def local(folder):
    """A scene on loopback."""
    scene = Scene(folder)
    try:
        yield scene
    finally:
        scene.server.kill()


class Link:
    """Two namespaces with a link between them, for as long as the `with` block."""

    SERVER, CLIENT = "192.0.2.1", "192.0.2.2"

    def __init__(self):
        mark = f"{os.getpid()}-{secrets.token_hex(2)}"
        self.far, self.near = f"linerate-far-{mark}", f"linerate-near-{mark}"

    @staticmethod
    def ip(*words, check=True):
        """Runs ip(8)."""
        subprocess.run(["ip", *words], check=check, capture_output=True)

    def inside(self, name):
        """What stands before a command that is to run there."""
        return ["ip", "netns", "exec", name]

    def up(self, state):
        """Plugs the cable in or out, at the server's side."""
        self.ip("-n", self.far, "link", "set", "veth0", "up" if state else "down")

    def __enter__(self):
        try:
            for name in (self.far, self.near):
                self.ip("netns", "add", name)
            self.ip("-n", self.far, "link", "add", "veth0", "type", "veth", "peer", "name", "veth0", "netns", self.near)
            for name, address in ((self.far, self.SERVER), (self.near, self.CLIENT)):
                self.ip("-n", name, "addr", "add", f"{address}/24", "dev", "veth0")
                self.ip("-n", name, "link", "set", "lo", "up")
                self.ip("-n", name, "link", "set", "veth0", "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in (self.far, self.near):
            self.ip("netns", "del", name, check=False)


@contextmanager
def linked(folder):
    """A scene with a link between client and server, and the link."""
    with Link() as link:
        scene = Scene(folder, Link.SERVER, link.inside(link.far), link.inside(link.near))
        try:
            yield scene, link
        finally:
            scene.server.kill()


def killed_under_reads(folder, protocol):
    """The server is killed and started again: reads go on, and every byte is right."""
    with local(folder) as scene:
        scene.fill(protocol)
        with scene.reading(protocol) as copy:
            copy.wait_begun()
            scene.server.kill()
            scene.server.start()
            copy.end(True)
        same(scene.source, scene.back)


def killed_under_writes(folder, protocol):
    """The same under writes: they go on and land, and the flush tells once that the server may have lost what was not yet flushed."""
    with local(folder) as scene:
        with scene.writing(protocol) as copy:
            copy.wait_begun()
            scene.server.kill()
            scene.server.start()
            said = copy.end(False)
            demand("flush" in said and LOSS in said, "the flush did not say that something may be lost", said)
        # A server that was killed has lost nothing: the system kept it. So all of it must be there.
        scene.check(protocol)
        with scene.writing(protocol, pace="") as copy:
            copy.end(True)


def gone_for_good(folder, protocol):
    """The server does not come back: the copy ends within the bound, and says why."""
    with local(folder) as scene:
        scene.fill(protocol)
        with scene.reading(protocol, reconnect="3s") as copy:
            copy.wait_begun()
            scene.server.kill()
            said = copy.end(False)
            demand("refused" in said.lower(), "the reason is not told", said)


def never_again(folder, protocol):
    """With reconnect=0 the first loss is the end, though the server is back at once."""
    with local(folder) as scene:
        scene.fill(protocol)
        with scene.reading(protocol, reconnect="0") as copy:
            copy.wait_begun()
            scene.server.kill()
            scene.server.start()
            copy.end(False)


def frozen(folder, protocol):
    """The server is frozen for longer than it may be silent, and shorter than a command may take: reads go on."""
    with local(folder) as scene:
        scene.fill(protocol)
        with scene.reading(protocol) as copy:
            copy.wait_begun()
            scene.server.process.send_signal(signal.SIGSTOP)
            time.sleep(16)  # the experiment's variable: beyond the bounds of silence, 10 s and 15 s
            scene.server.process.send_signal(signal.SIGCONT)
            copy.end(True)
        same(scene.source, scene.back)


def frozen_too_long(folder, protocol):
    """The server is frozen for longer than a command may take: the copy ends by that, within the bound, and the volume is as it was."""
    with local(folder) as scene:
        scene.fill(protocol)
        with scene.reading(protocol, timeout="2s", reconnect="5s") as copy:
            copy.wait_begun()
            scene.server.process.send_signal(signal.SIGSTOP)
            said = copy.end(False)
            scene.server.process.send_signal(signal.SIGCONT)
            demand("did not answer in time" in said, "the copy ended for another reason", said)
        scene.check(protocol)


def cut_under_reads(folder, protocol):
    """The link is cut for five seconds: reads go on."""
    with linked(folder) as (scene, link):
        scene.fill(protocol)
        with scene.reading(protocol) as copy:
            copy.wait_begun()
            link.up(False)
            time.sleep(5)  # the experiment's variable
            link.up(True)
            copy.end(True)
        same(scene.source, scene.back)


def cut_under_writes(folder, protocol):
    """The same under writes. Whether TCP survives is the kernel's business; nothing is lost or wrong either way."""
    with linked(folder) as (scene, link):
        with scene.writing(protocol) as copy:
            copy.wait_begun()
            link.up(False)
            time.sleep(5)  # the experiment's variable
            link.up(True)
            said = copy.end(None)
            scene.settle(protocol, said, copy.process.returncode)


def half_open(folder, protocol):
    """The server dies while the link is down, so that its end of the connection is gone and the client is not told: reads go on with the next one."""
    with linked(folder) as (scene, link):
        scene.fill(protocol)
        with scene.reading(protocol) as copy:
            copy.wait_begun()
            link.up(False)
            scene.server.kill()
            scene.server.start()
            link.up(True)
            copy.end(True)
        same(scene.source, scene.back)


def vanished(folder, protocol):
    """The link is cut for good: no packet says so, and yet the copy ends within the bound."""
    with linked(folder) as (scene, link):
        scene.fill(protocol)
        with scene.reading(protocol, reconnect="3s") as copy:
            copy.wait_begun()
            link.up(False)
            said = copy.end(False)
            demand("no path to the volume" in said, "the copy ended for another reason", said)
            link.up(True)


LOCAL = (killed_under_reads, killed_under_writes, gone_for_good, never_again, frozen, frozen_too_long)
LINKED = (cut_under_reads, cut_under_writes, half_open, vanished)


def main():
    """Runs every test over both protocols."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--test", default="", metavar="PART", help="only tests whose name has this")
    wanted = parser.parse_args().test
    account = Account("failures")
    for test in (*LOCAL, *LINKED):
        for protocol in PROTOCOLS:
            name = f"{test.__name__} over {protocol}"
            if wanted not in name:
                continue
            if test in LINKED and os.geteuid() != 0:
                account.record("skipped", name, "network namespaces need root")
                continue
            with account.test(name), temporary_folder() as folder:
                test(folder, protocol)
    return account.close()


if __name__ == "__main__":
    sys.exit(main())
