#!/usr/bin/env python3
"""`linerate attach` in the eyes of programs that know nothing of Linerate: libnbd's tools and QEMU's on its NBD server.

`run.py [--test NAME] [--driver uring|epoll]`. The volumes behind it are memory, a file, and disks of a `linerate serve`, over iSCSI and over
NVMe/TCP.
"""
import argparse
import hashlib
import json
import random
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(HERE.parent)]
from adapter import Attach, NbdWriter  # noqa: E402
from harness import Account, Linerate, linerate_binary, temporary_folder  # noqa: E402

MIB = 1 << 20
SIZE = 64 * MIB
COMMAND_SECONDS = 300


def run(*command, check=True):
    """Runs a command; its output. A failure tells all it said."""
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=COMMAND_SECONDS)
    if check and result.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {result.returncode}\n{result.stdout}{result.stderr}")
    return result if not check else result.stdout


def expect(what, found, wanted):
    """Fails unless both are equal."""
    if found != wanted:
        raise RuntimeError(f"{what}: {found!r} instead of {wanted!r}")


def digest(path):
    """The file's SHA-256."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def image(path, seed):
    """A file of SIZE bytes: random data, with holes of whole megabytes in it."""
    source = random.Random(seed)
    with open(path, "wb") as file:
        for number in range(SIZE // MIB):
            if number % 4 == 1:
                file.seek(MIB, 1)
            else:
                file.write(source.randbytes(MIB))
        file.truncate(SIZE)
    return path


def volumes(folder, server):
    """The volumes that are attached, by name."""
    return {
        "ram": "ram:64M",
        "file": f"file:{folder}/disk.img?size=64M",
        "iscsi": server.iscsi("disk"),
        "nvme": server.nvme("disk"),
        "4096-byte blocks": "ram:64M?block=4096",
    }


def nbd_copies(folder, url, options):
    """libnbd's and QEMU's tools write, read, compare and map; all bytes are there."""
    with Attach(folder, url, "nbd", "unix:nbd.sock", *options) as adapter:
        export = json.loads(run("nbdinfo", "--json", adapter.uri))["exports"][0]
        expect("export-size", export["export-size"], SIZE)
        for able in ("can_flush", "can_fua", "can_multi_conn", "can_zero", "can_df"):
            expect(able, export[able], True)
        source = image(folder / "source.img", 1)
        run("nbdcopy", "--flush", source, adapter.uri)
        run("nbdcopy", "--connections=4", adapter.uri, folder / "back.img")
        expect("what nbdcopy read", digest(folder / "back.img"), digest(source))
        other = image(folder / "other.img", 2)
        run("qemu-img", "convert", "-f", "raw", "-O", "qcow2", other, folder / "other.qcow2")
        run("qemu-img", "convert", "-n", "-f", "qcow2", "-O", "raw", folder / "other.qcow2", adapter.uri)
        run("qemu-img", "compare", "-f", "raw", "-F", "raw", other, adapter.uri)
        mapped = json.loads(run("qemu-img", "map", "--output=json", "-f", "raw", adapter.uri))
        expect("bytes mapped", sum(piece["length"] for piece in mapped), SIZE)
        run("qemu-io", "-f", "raw", adapter.uri, "-c", "write -f -P 7 1M 64k", "-c", "discard 4M 1M", "-c", "write -z -u 8M 1M",
            "-c", "flush", "-c", "read -P 7 1M 64k", "-c", "read -P 0 8M 1M")


def nbd_over_tcp(folder, options):
    """A port of loopback, two cores."""
    with Attach(folder, "ram:64M", "nbd", "127.0.0.1:0", "--cores", "2", *options) as adapter:
        source = image(folder / "source.img", 3)
        run("nbdcopy", "--connections=4", source, adapter.uri)
        run("qemu-img", "compare", "-f", "raw", "-F", "raw", source, adapter.uri)


def nbd_read_only(folder, options):
    """Nobody may write, and clients know it beforehand."""
    with Attach(folder, "ram:1M", "nbd", "unix:nbd.sock", "--read-only", *options) as adapter:
        export = json.loads(run("nbdinfo", "--json", adapter.uri))["exports"][0]
        expect("is_read_only", export["is_read_only"], True)
        refused = run("qemu-io", "-f", "raw", adapter.uri, "-c", "write 0 4k", check=False)
        if refused.returncode == 0:
            raise RuntimeError(f"a write to a read-only export succeeded: {refused.stdout}")


def written_is_kept(folder, server, end):
    """Ends the adapter while a client writes: what was acknowledged is on the target."""
    url = server.nvme("disk")
    adapter = Attach(folder, url, "nbd", "unix:nbd.sock")
    writer = NbdWriter(folder / "nbd.sock")
    ended = []

    def enough(count):
        if count >= 2000 and not ended:
            ended.append(end(adapter.process))

    writer.run(enough)
    adapter.process.wait(COMMAND_SECONDS)
    return adapter, writer, url


def check_kept(folder, writer, url):
    """A new adapter takes the place of the old one, and shows what was acknowledged."""
    with Attach(folder, url, "nbd", "unix:nbd.sock") as adapter:
        run("nbdcopy", adapter.uri, folder / "kept.img")
    with open(folder / "kept.img", "rb") as file:
        def read(offset, length):
            file.seek(offset)
            return file.read(length)
        if writer.check(read) < 1000:
            raise RuntimeError("too few writes were acknowledged to prove anything")


def detach_under_load(folder, server):
    """SIGTERM amid writes: a clean exit, the socket is gone, nothing acknowledged is lost."""
    adapter, writer, url = written_is_kept(folder, server, lambda process: process.terminate())
    expect("exit status", adapter.process.returncode, 0)
    if (folder / "nbd.sock").exists():
        raise RuntimeError("the socket file was left behind")
    check_kept(folder, writer, url)


def killed_under_load(folder, server):
    """SIGKILL amid writes: clients see an error, a new adapter takes over the stale socket, nothing acknowledged is lost."""
    adapter, writer, url = written_is_kept(folder, server, lambda process: process.kill())
    expect("exit status", adapter.process.returncode, -9)
    check_kept(folder, writer, url)


def misuse(folder):
    """Each mistake is told in words."""
    taken = folder / "taken"
    taken.write_text("not a socket")
    for words, wanted in (
        (["ram:1M", "0.0.0.0:0", "--as", "nbd"], "--allow-any"),
        (["ram:1M", f"unix:{taken}", "--as", "nbd"], "is not a socket"),
        (["ram:1M", "nowhere", "--as", "nbd"], "unix:PATH"),
        (["ram:1M", "unix:x", "--as", "floppy"], "nbd"),
        (["ram:1M", "unix:x", "--as", "nbd", "--cpus", "x"], "not a list of processors"),
        ([f"file:{folder}/absent.img", f"unix:{folder}/x.sock", "--as", "nbd"], "absent.img"),
    ):
        result = run(linerate_binary(), "attach", *words, check=False)
        if result.returncode == 0 or wanted not in result.stderr:
            raise RuntimeError(f"{words} gave {result.returncode}: {result.stderr}")
    if (folder / "x.sock").exists():
        raise RuntimeError("a failed attach left its socket behind")


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--test", default="", help="only tests whose name has this")
    arguments.add_argument("--driver", default="auto", help="how the adapter reaches the kernel")
    chosen = arguments.parse_args()
    options = ("--driver", chosen.driver)
    account = Account("attach")

    def test(name, function, *words):
        if chosen.test not in name:
            return
        with account.test(name), temporary_folder() as folder:
            function(Path(folder), *words)

    with temporary_folder() as folder, Linerate(folder, ["disk=ram:64M"]) as server:
        for name, url in volumes(folder, server).items():
            test(f"nbd {name}", nbd_copies, url, options)
        test("nbd tcp, two cores", nbd_over_tcp, options)
        test("nbd without io_uring", nbd_copies, server.iscsi("disk"), ("--driver", "epoll"))
        test("nbd read-only", nbd_read_only, options)
        test("nbd detach under load", detach_under_load, server)
        test("nbd killed under load", killed_under_load, server)
        test("nbd misuse", misuse)
    return account.close()


if __name__ == "__main__":
    sys.exit(main())
