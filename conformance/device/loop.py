"""Loop devices that cannot be left behind.

A device is marked to let its file go at its last close, and is held open here: it ends with its `with` block, and also if this process is
killed.
"""
import os
import shutil
import stat
import subprocess
from pathlib import Path

LOOP_MAJOR = 7


def tool(*arguments):
    """Runs a tool and gives its output."""
    run = subprocess.run([str(word) for word in arguments], capture_output=True, text=True, timeout=60)
    if run.returncode != 0:
        raise RuntimeError(f"{arguments[0]} {arguments[1]} ended with {run.returncode}\n{run.stdout}{run.stderr}")
    return run.stdout.strip()


def ensure_node():
    """Makes the node of the next free loop device where /dev is not the kernel's own."""
    path = Path(tool("losetup", "--find"))
    if not path.exists():
        os.mknod(path, stat.S_IFBLK | 0o660, os.makedev(LOOP_MAJOR, int(path.name.removeprefix("loop"))))


def obstacle(folder):
    """Why loop devices cannot be made here, or nothing."""
    if os.geteuid() != 0:
        return "needs root, for losetup"
    if shutil.which("modprobe"):
        subprocess.run(["modprobe", "loop"], capture_output=True, timeout=60)
    if not any(line.split() == [str(LOOP_MAJOR), "loop"] for line in Path("/proc/devices").read_text().splitlines()):
        return "this kernel has no loop devices"
    try:
        with Loop(folder / "probe.img", 1 << 20):
            return None
    except (OSError, RuntimeError) as error:
        return f"loop devices cannot be made here: {' '.join(str(error).split())}"


class Loop:
    """A loop device on a sparse file, as a `with` block; `path` is its node."""

    def __init__(self, backing, size, sector=512, read_only=False):
        self.backing, self.sector = backing, sector
        with backing.open("wb") as file:
            file.truncate(size)
        ensure_node()
        options = ("--find", "--show", f"--sector-size={sector}", *(["--read-only"] if read_only else []))
        try:
            self.path = tool("losetup", *options, "--direct-io=on", backing)
        except RuntimeError:  # the folder's file system may lack direct I/O
            self.path = tool("losetup", *options, backing)
        try:
            self.handle = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        finally:
            tool("losetup", "--detach", self.path)

    def allocated(self):
        """Bytes that the file takes of its file system."""
        return self.backing.stat().st_blocks * 512

    def resize(self, size):
        """Gives the file and the device another size."""
        os.truncate(self.backing, size)
        tool("losetup", "--set-capacity", self.path)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.handle)
        self.backing.unlink()
