#!/usr/bin/env python3
"""Volumes `device:` on real block devices: loop devices with sectors of 512 and of 4096 bytes.

The volume contract and the kernel's figures are checked by the Rust tests of the crate `backends`; this runner makes the devices, runs those,
and then looks at everything through the `linerate` program: copies in over iSCSI and out over NVMe/TCP, discard and write zeroes seen in the
space that the backing file takes, FUA and flush seen in the system calls, and the words with which a device is refused.

Needs root, for losetup and mount. Without root, or where the kernel makes no loop devices, every test is left out by its name.
"""
import errno
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE.parent), str(HERE)]
from harness import Account, Linerate, linerate_binary, mounted, rust_failure, temporary_folder  # noqa: E402
from loop import Loop, obstacle, tool  # noqa: E402

MIB = 1 << 20
SIZE = 32 * MIB
NOBODY = 65534
# Seconds for one command, and for the Rust tests with their build.
TIME_LIMIT = 60
RUST_LIMIT = 900


def qemu_io(url, *steps, succeeds=True):
    """qemu-io's steps, its cache off; a pattern that does not read back is a failure though qemu-io may end with 0."""
    words = [word for step in steps for word in ("-c", step)]
    run = subprocess.run(["qemu-io", "-f", "raw", "-t", "none", "-d", "unmap", *words, url], capture_output=True, text=True, timeout=TIME_LIMIT)
    output = run.stdout + run.stderr
    failed = run.returncode != 0 or "failed" in output.lower() or "error" in output.lower()
    if failed == succeeds:
        raise RuntimeError(f"qemu-io {'; '.join(steps)} ended with {run.returncode}\n{output}")
    return output


def digest(path):
    """A file's SHA-256."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def demand(true, words, detail=""):
    """Fails with these words unless `true`."""
    if not true:
        raise RuntimeError(f"{words}\n{detail}")


def refusal(url, *words, user=None, binary=None):
    """`linerate serve` refuses the volume at once, with an error that has these words."""
    command = [binary or linerate_binary(), "serve", f"disk={url}", "--iscsi", "127.0.0.1:0", "--nvme", "127.0.0.1:0"]
    identity = {} if user is None else {"user": user, "group": user, "extra_groups": []}
    run = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=TIME_LIMIT, **identity)
    demand(run.returncode != 0, "was served, not refused", run.stderr)
    missing = [word for word in words if word not in run.stderr]
    demand(not missing, f"the error lacks {missing}", run.stderr)


def rust_tests(folder, sector):
    """The volume contract, sizes, and what direct I/O refuses: the tests of the crate `backends`."""
    with Loop(folder / "contract.img", SIZE, sector) as loop:
        variables = {"LINERATE_TEST_DEVICE": loop.path, "LINERATE_TEST_SIZE": str(SIZE), "LINERATE_TEST_SECTOR": str(sector)}
        command = ["cargo", "test", "--quiet", "-p", "backends", "--test", "real", "--", "--ignored", "--test-threads=1", "device::"]
        run = subprocess.run(command, cwd=ROOT, env=os.environ | variables, capture_output=True, text=True, timeout=RUST_LIMIT)
    result = re.search(r"test result: ok\. (\d+) passed; 0 failed; 0 ignored", run.stdout)
    demand(run.returncode == 0 and result and int(result[1]) > 0, "the Rust tests fail", rust_failure(run.stderr + run.stdout))


def round_trip(folder, sector, driver, tail=""):
    """An image copied in over iSCSI and out over NVMe/TCP, then compared with both the copy and the backing file."""
    image, back = folder / "image.raw", folder / "back.raw"
    image.write_bytes(random.Random(sector).randbytes(SIZE))
    back.unlink(missing_ok=True)
    with Loop(folder / "disk.img", SIZE, sector) as loop:
        with Linerate(folder, [f"disk=device:{loop.path}{tail}"], driver=driver) as server:
            tool(linerate_binary(), "copy", f"file:{image}", server.iscsi("disk"), "--overwrite")
            tool(linerate_binary(), "copy", server.nvme("disk"), f"file:{back}?size={SIZE}", "--overwrite")
        demand(digest(back) == digest(image), "what came back differs")
        demand(digest(loop.backing) == digest(image), "the device holds something else")


def space(folder, sector, driver):
    """Discard and unmapping zeroes give the backing file's blocks back, plain zeroes keep them, all read as zeros."""
    with Loop(folder / "disk.img", SIZE, sector) as loop, Linerate(folder, [f"disk=device:{loop.path}"], driver=driver) as server:
        url = server.iscsi("disk")
        taken = {}
        for name, step in (("written", f"write -P 170 0 {SIZE}"), ("discarded", "discard 8M 8M"), ("zeroed", "write -z 20M 4M"),
                           ("unmapped", "write -zu 28M 4M")):
            qemu_io(url, step, "flush")
            os.sync()
            taken[name] = loop.allocated()
        slack = MIB // 4  # what the file system takes for itself
        demand(taken["written"] >= SIZE, "the write is not on the backing file", taken)
        demand(taken["written"] - taken["discarded"] >= 8 * MIB - slack, "discard released nothing", taken)
        demand(abs(taken["zeroed"] - taken["discarded"]) <= slack, "zeroing changed the space", taken)
        demand(taken["zeroed"] - taken["unmapped"] >= 4 * MIB - slack, "unmapping zeroes released nothing", taken)
        # QEMU 7.2 stops at an assertion of its own when it reads more than 32 KiB from 4096-byte blocks.
        back = folder / "back.raw"
        tool(linerate_binary(), "copy", server.nvme("disk"), f"file:{back}?size={SIZE}", "--overwrite")
        model = bytearray(b"\xaa" * SIZE)
        for start, length in ((8, 8), (20, 4), (28, 4)):
            model[start * MIB : (start + length) * MIB] = bytes(length * MIB)
        demand(back.read_bytes() == model, "the content is not what was written and zeroed")


@contextmanager
def traced(folder):
    """Lets `linerate` run under strace; gives the file that its system calls are in once it has ended."""
    calls, wrapper, before = folder / "calls", folder / "traced", os.environ.get("LINERATE")
    trace = "open,openat,pwritev2,fdatasync,fallocate"
    wrapper.write_text(f'#!/bin/sh\nexec strace -D -f -q -e trace={trace} -o "{calls}" "{linerate_binary()}" "$@"\n')
    wrapper.chmod(0o755)
    os.environ["LINERATE"] = str(wrapper)
    try:
        yield calls
    finally:
        os.environ.pop("LINERATE")
        if before is not None:
            os.environ["LINERATE"] = before


def traced_to_the_end(calls, process):
    """What strace wrote, once it saw the process end: it outlives it by a moment."""
    deadline = time.monotonic() + TIME_LIMIT
    while not re.search(rf"^{process.pid} +\+\+\+ ", text := calls.read_text(), re.MULTILINE):
        demand(time.monotonic() < deadline, "strace does not see the server's end", text)
        time.sleep(0.02)
    return text


def durability(folder, sector):
    """FUA is RWF_DSYNC, a plain write is not, a flush is fdatasync, and the device is opened exclusively for direct I/O."""
    with Loop(folder / "disk.img", SIZE, sector) as loop, traced(folder) as calls:
        # On io_uring no system call is to be seen: epoll's file threads make the same ones.
        with Linerate(folder, [f"disk=device:{loop.path}"], driver="epoll") as server:
            qemu_io(server.iscsi("disk"), "write -P 1 1M 64k", "flush", "write -f -P 2 2M 64k", "discard 4M 4M", "write -z 8M 64k")
        text = traced_to_the_end(calls, server.process)
    descriptor = re.search(rf'open(?:at\(AT_FDCWD, |\()"{loop.path}", O_RDWR\|O_EXCL\|O_DIRECT\|[A-Z_|]+\) = (\d+)', text)
    demand(descriptor, "not opened with O_EXCL and O_DIRECT", text)
    # Each queue flushes on a description of its own, so that the kernel tells it of errors that others were told before.
    flushes = re.search(rf'open(?:at\(AT_FDCWD, |\()"/proc/self/fd/{descriptor[1]}", O_RDONLY\|[A-Z_|]+\) = (\d+)', text)
    demand(flushes, "no description for flushes", text)
    unfinished = r"(?:\) += |.*unfinished)"  # other threads' calls may come between
    for words, call in (
        ("a plain write is not plain", rf"pwritev2\({descriptor[1]}, .*, {MIB}, 0{unfinished}"),
        ("a flush is no fdatasync", rf"fdatasync\({flushes[1]}"),
        ("FUA is no RWF_DSYNC", rf"pwritev2\({descriptor[1]}, .*, {2 * MIB}, RWF_DSYNC{unfinished}"),
        ("discard punches no hole", rf"fallocate\({descriptor[1]}, FALLOC_FL_KEEP_SIZE\|FALLOC_FL_PUNCH_HOLE, {4 * MIB}, {4 * MIB}"),
        ("zeroing is no zeroed range", rf"fallocate\({descriptor[1]}, FALLOC_FL_KEEP_SIZE\|FALLOC_FL_ZERO_RANGE, {8 * MIB}, {64 << 10}"),
    ):
        demand(re.search(call, text), words, text)


def flushes_of(loop):
    """Flush requests that the device has completed (Documentation/block/stat.rst, field 16)."""
    return int(Path(f"/sys/block/{Path(loop.path).name}/stat").read_text().split()[15])


def flush_counter(folder, sector, setting):
    """Flushes and FUA writes reach the device: its own counter says so, on whatever driver."""
    driver, tail = setting
    writes = 8
    with Loop(folder / "disk.img", SIZE, sector) as loop, Linerate(folder, [f"disk=device:{loop.path}{tail}"], driver=driver) as server:
        for name, steps, least in (
            ("a flush", ("write -P 1 1M 64k", "flush"), 1),
            # QEMU flushes once more at its end.
            ("a FUA write", [f"write -f -P {number + 2} {number}M 64k" for number in range(writes)], writes + 1),
            ("a FUA write of zeroes", [f"write -z -f {number}M 64k" for number in range(writes)], writes),
        ):
            before = flushes_of(loop)
            qemu_io(server.iscsi("disk"), *steps)
            count = flushes_of(loop) - before
            demand(count >= least, f"{name} does not reach the device: it completed {count} flushes, not {least} (docs/volume-contract.md, Durability)")


@contextmanager
def small_store(folder, size):
    """A folder with room for `size` bytes, in a mount namespace of its own that ends with its shell."""
    place = folder / "store"
    place.mkdir()
    with mounted('mount -t tmpfs -o size="$1" none "$2"', size, place) as root:
        yield root / place.relative_to("/")


def lost(folder, driver):
    """Writes that the page cache cannot write back are lost for everybody: no later flush or write of any client succeeds, also after
    a restart, until an operator accepts the loss; reads go on."""
    with small_store(folder, 4 * MIB) as store, Loop(store / "disk.img", SIZE) as loop:
        volume = f"disk=device:{loop.path}?direct=0"
        with Linerate(folder, [volume], driver=driver) as server:
            url = server.iscsi("disk")
            qemu_io(url, "write -P 65 0 64k", "flush")
            qemu_io(url, f"write -P 66 0 {SIZE // 2}", "flush", succeeds=False)
            for words, steps in (
                ("a write and a flush", ("write -P 67 0 64k", "flush")),
                ("a FUA write", ("write -f -P 68 0 64k",)),
                ("a discard", ("discard 0 1M",)),
                ("a write of zeroes", ("write -z 0 64k",)),
            ):
                try:
                    qemu_io(url, *steps, succeeds=False)
                except RuntimeError as error:
                    raise RuntimeError(f"{words} succeeds after a loss (docs/volume-contract.md, Durability)") from error
            image = folder / "image.raw"
            image.write_bytes(bytes(MIB))
            run = subprocess.run([linerate_binary(), "copy", f"file:{image}", server.nvme("disk")], capture_output=True, text=True, timeout=TIME_LIMIT)
            demand(run.returncode != 0, "a copy over NVMe/TCP succeeds after a loss", run.stdout + run.stderr)
            qemu_io(url, "read 0 64k")
            # What an operator reads.
            told = "the volume \"disk\" has lost acknowledged writes"
            demand(told in server.log.read_text(), "the operator is not told", server.log.read_text())
        with Linerate(folder, [volume], driver=driver) as server:
            demand(server.log.read_text().count(told) > 1, "a server that begins does not tell of the loss", server.log.read_text())
            qemu_io(server.iscsi("disk"), "write -P 69 0 64k", "flush", succeeds=False)
            qemu_io(server.iscsi("disk"), "read 0 64k")
        losses = (linerate_binary(), "losses", volume, "--state", folder / "state")
        demand("--accept" in tool(*losses), "an operator is not told how to clear the loss")
        demand("cleared" in tool(*losses, "--accept"), "the loss is not cleared")
        with Linerate(folder, [volume], driver=driver) as server:
            qemu_io(server.iscsi("disk"), "write -P 70 0 64k", "flush", "read -P 70 0 64k")


def mounted_device(folder):
    """A mounted device is refused, and served once it is free."""
    place = folder / "mounted"
    place.mkdir()
    with Loop(folder / "disk.img", SIZE) as loop:
        tool("mkfs.ext4", "-q", "-F", loop.path)
        # In a mount namespace of its own: nobody else sees the mount, and it ends with the shell at the latest.
        script = 'mount "$1" "$2" && echo mounted && read -r _; umount "$2"'
        command = ["unshare", "--mount", "sh", "-c", script, "sh", loop.path, place]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as shell:
            words = shell.stdout.readline().strip()
            demand(words == "mounted", "cannot be mounted", words)
            refusal(f"device:{loop.path}", loop.path, "mounted", "unmount")
            shell.stdin.close()
            demand(shell.wait(TIME_LIMIT) == 0, "cannot be unmounted")
        with Linerate(folder, [f"disk=device:{loop.path}"]) as server:
            qemu_io(server.iscsi("disk"), "read 0 64k")


def claimed(folder):
    """A device that another process claims is refused; while it is served, nobody else can claim it, nor serve it again."""
    with Loop(folder / "disk.img", SIZE) as loop:
        handle = os.open(loop.path, os.O_RDONLY | os.O_EXCL)
        try:
            refusal(f"device:{loop.path}", loop.path, "claimed by another process", "release")
        finally:
            os.close(handle)
        with Linerate(folder, [f"disk=device:{loop.path}"]):
            refusal(f"device:{loop.path}", loop.path, "claimed by another process")
            try:
                os.close(os.open(loop.path, os.O_RDONLY | os.O_EXCL))
            except OSError as error:
                demand(error.errno == errno.EBUSY, f"claiming a served device fails otherwise: {error}")
            else:
                raise RuntimeError("a served device can be claimed by another process")


def read_only(folder):
    """A read-only device is refused with the remedy; that serves it, without writes."""
    with Loop(folder / "disk.img", SIZE, read_only=True) as loop:
        refusal(f"device:{loop.path}", loop.path, "readonly+")
        with Linerate(folder, [f"disk=readonly+device:{loop.path}"]) as server:
            tool("qemu-io", "-r", "-f", "raw", "-c", "read -P 0 0 64k", server.iscsi("disk"))
            qemu_io(server.iscsi("disk"), "write -P 1 0 64k", succeeds=False)


def missing(folder):
    """A device that is not there, or has nothing behind it, is refused."""
    path = f"{folder}/no-such-device"
    refusal(f"device:{path}", path, "No such file", "check the path")
    with Loop(folder / "disk.img", 0) as empty:
        refusal(f"device:{empty.path}", empty.path, "empty (0 bytes)", "attach")


def forbidden(folder):
    """A user without rights to the device is told so."""
    binary = folder / "linerate"
    shutil.copy(linerate_binary(), binary)
    folder.chmod(0o711)
    with Loop(folder / "disk.img", SIZE) as loop:
        demand(Path(loop.path).stat().st_mode & 0o006 == 0, f"everybody may use {loop.path}: nothing is shown")
        refusal(f"device:{loop.path}", loop.path, "Permission denied", "lacks the right", user=NOBODY, binary=binary)


def misaligned(folder):
    """Blocks of 512 bytes are refused on sectors of 4096, with direct I/O and without; blocks of 4096 fit on sectors of 512."""
    with Loop(folder / "disk.img", SIZE, 4096) as loop:
        for tail in ("?block=512", "?block=512&direct=0"):
            refusal(f"device:{loop.path}{tail}", loop.path, "aligned to 4096 bytes", "leave block= out")
    with Loop(folder / "disk.img", SIZE) as loop, Linerate(folder, [f"disk=device:{loop.path}?block=4096"]) as server:
        qemu_io(server.iscsi("disk"), "write -P 3 4k 4k", "read -P 3 4k 4k", "read -P 0 8k 4k")


def served_size(server):
    """The volume's size, as QEMU sees it."""
    return json.loads(tool("qemu-img", "info", "--output=json", "-f", "raw", server.iscsi("disk")))["virtual-size"]


def resized(folder):
    """A server keeps the size that a device had when it was opened, and goes on; the next one sees the new size."""
    with Loop(folder / "disk.img", SIZE) as loop:
        for before, after in ((SIZE, 2 * SIZE), (2 * SIZE, SIZE)):
            with Linerate(folder, [f"disk=device:{loop.path}"]) as server:
                loop.resize(after)
                demand(served_size(server) == before, "the served size changed")
                qemu_io(server.iscsi("disk"), "write -P 5 0 64k", "read -P 5 0 64k")
                if after < before:
                    qemu_io(server.iscsi("disk"), f"read {after} 64k", succeeds=False)
                    qemu_io(server.iscsi("disk"), f"write {after} 64k", succeeds=False)
                    qemu_io(server.iscsi("disk"), "read -P 5 0 64k")
            with Linerate(folder, [f"disk=device:{loop.path}"]) as server:
                demand(served_size(server) == after, "a new server does not see the new size")


def tests():
    """Every test: its name, and what it does in a folder of its own."""
    for sector in (512, 4096):
        name = f"{sector}-byte sectors"
        yield f"{name}: contract", lambda folder, sector=sector: rust_tests(folder, sector)
        for driver in ("auto", "epoll"):
            yield f"{name}, {driver}: in by iSCSI, out by NVMe/TCP", lambda folder, s=sector, d=driver: round_trip(folder, s, d)
            yield f"{name}, {driver}: discard and zeroes", lambda folder, s=sector, d=driver: space(folder, s, d)
        yield f"{name}, page cache: in by iSCSI, out by NVMe/TCP", lambda folder, s=sector: round_trip(folder, s, "auto", "?direct=0")
        for tail in ("", "?direct=0"):
            for driver in ("auto", "epoll"):
                words = f"{name}, {driver}, {'page cache' if tail else 'direct'}: the device's flush counter"
                yield words, lambda folder, d=driver, t=tail, s=sector: flush_counter(folder, s, (d, t))
        yield f"{name}: FUA, flush, discard, zeroes as system calls", lambda folder, sector=sector: durability(folder, sector)
    for driver in ("auto", "epoll"):
        yield f"lost writes, {driver}", lambda folder, driver=driver: lost(folder, driver)
    for function in (mounted_device, claimed, read_only, missing, forbidden, misaligned, resized):
        yield function.__name__, function


def main():
    """Runs the tests, or leaves all of them out by name with the reason."""
    account = Account("device")
    with temporary_folder() as name:
        reason = obstacle(Path(name))
    if reason:
        for name, _ in tests():
            account.record("skipped", name, reason)
        account.close()
        return 0
    for name, function in tests():
        with account.test(name), temporary_folder() as folder:
            function(Path(folder))
    return account.close()


if __name__ == "__main__":
    sys.exit(main())
