"""Servers under test: Linerate itself, and tgt as the peer on which the runners prove themselves."""
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# How long a server may take to listen, and to stop. Generous: the machine may be busy.
START_SECONDS = 20
STOP_SECONDS = 20
TARGET = "iqn.2026-11.org.linerate"
SUBSYSTEM = "nqn.2026-11.org.linerate"


def linerate_binary():
    """The `linerate` to test: $LINERATE, else the release build."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    path = Path(os.environ.get("LINERATE", target / "release" / "linerate"))
    if not path.exists():
        sys.exit(f"{path} is not there: `cargo build --release -p cli` builds it, or set LINERATE")
    return path


def temporary_folder():
    """A folder that goes away with its `with` block."""
    return tempfile.TemporaryDirectory(prefix="linerate-")


def wait_until(ready, process, log):
    """Waits until `ready()` is true; fails if the process ends first or takes too long."""
    deadline = time.monotonic() + START_SECONDS
    while not ready():
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}:\n{log.read_text()}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"the server does not listen after {START_SECONDS} s:\n{log.read_text()}")
        time.sleep(0.02)


class Linerate:
    """`linerate serve` on ephemeral ports, as a `with` block. Leaving the block stops it and demands a clean exit."""

    def __init__(self, folder, volumes=(), driver="auto", config=None):
        self.folder = Path(folder)
        self.log = self.folder / "linerate.log"
        ready = self.folder / "ready"
        ready.unlink(missing_ok=True)
        command = [linerate_binary(), "serve", *volumes, "--ready-file", ready, "--driver", driver, "--state", self.folder / "state"]
        if config is None:
            kinds = ("iscsi", "nvme", "iser", "nvme-rdma", *(["nfs"] if any("=dir:" in volume for volume in volumes) else []))
            command += [word for kind in kinds for word in (f"--{kind}", "127.0.0.1:0")]
        else:
            (self.folder / "linerate.toml").write_text(config)
            command += ["--config", self.folder / "linerate.toml"]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
        try:
            wait_until(ready.exists, self.process, self.log)
            self.portals = dict(line.split(maxsplit=1) for line in ready.read_text().splitlines())
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise

    def iscsi(self, name, user=""):
        """The volume's URL for libiscsi, QEMU and Linerate's own initiator; `user` is `name%secret`."""
        return f"iscsi://{user + '@' if user else ''}{self.portals['iscsi'].strip()}/{TARGET}:{name}/0"

    def nvme(self, name):
        """The volume's URL for Linerate's own host."""
        return f"nvme+tcp://{self.portals['nvme'].strip()}/{SUBSYSTEM}:{name}/1"

    def iser(self, name):
        """The volume's URL for Linerate's own initiator over RDMA."""
        return f"iser://{self.portals['iser'].strip()}/{TARGET}:{name}/0"

    def nvme_rdma(self, name):
        """The volume's URL for Linerate's own host over RDMA."""
        return f"nvme+rdma://{self.portals['nvme-rdma'].strip()}/{SUBSYSTEM}:{name}/1"

    def nfs(self, share, path=""):
        """The URL for libnfs of a share, or of a file in it: version 3, without a port mapper."""
        host, port = self.portals["nfs"].strip().rsplit(":", 1)
        return f"nfs://{host}/{share}/{path}?version=3&nfsport={port}&mountport={port}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise RuntimeError(f"linerate did not stop within {STOP_SECONDS} s:\n{self.log.read_text()}") from None
        if status != 0:
            raise RuntimeError(f"linerate stopped with status {status}:\n{self.log.read_text()}")


def free_port():
    """A port that was free a moment ago, for servers that cannot choose one themselves."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Tgt:
    """tgt with one thin-provisioned LUN, as a `with` block: the runners prove themselves on it."""

    def __init__(self, folder, size):
        self.folder = Path(folder)
        self.log = self.folder / "tgtd.log"
        self.port = free_port()
        # Instances are told apart by a number of at most 15 bits.
        self.control = str(self.port % 32768)
        with (self.folder / "tgt.img").open("wb") as image:
            image.truncate(size)
        command = ["tgtd", "-f", "-C", self.control, "--iscsi", f"portal=127.0.0.1:{self.port}"]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_until(lambda: self.admin("--mode", "sys", "--op", "show", check=False) == 0, self.process, self.log)
        self.admin("--mode", "target", "--op", "new", "--tid", "1", "-T", f"{TARGET}:disk")
        unit = ("--mode", "logicalunit", "--tid", "1", "--lun", "1")
        self.admin(*unit, "--op", "new", "-b", self.folder / "tgt.img")
        self.admin(*unit, "--op", "update", "--params", "thin_provisioning=1")
        self.admin("--mode", "target", "--op", "bind", "--tid", "1", "-I", "ALL")

    def admin(self, *arguments, check=True):
        """Runs tgtadm and gives its exit status."""
        command = ["tgtadm", "-C", self.control, "--lld", "iscsi", *arguments]
        return subprocess.run(command, check=check, capture_output=True).returncode

    def iscsi(self, _name, user=""):
        """The LUN's URL."""
        return f"iscsi://{user + '@' if user else ''}127.0.0.1:{self.port}/{TARGET}:disk/1"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # tgtd ignores SIGTERM while it has targets.
        self.admin("--mode", "target", "--op", "delete", "--force", "--tid", "1", check=False)
        self.process.kill()
        self.process.wait()
