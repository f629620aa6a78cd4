#!/usr/bin/env python3
"""kill -9, twenty times: what was flushed or written with FUA before is there after.

A server on a file volume is written to by QEMU over iSCSI and killed while more writes are on their way; a new server on the same file then
gives back everything that was acknowledged as flushed. This proves that the process itself holds nothing back; what a power cut does to a disk
is for the simulator's crash disk, which loses and tears what was not flushed.
"""
import random
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent))
from harness import Account, Linerate, linerate_binary, temporary_folder  # noqa: E402

SIZE = 32 << 20
BLOCK = 64 << 10
ROUNDS = 20
TIME_LIMIT = 60


def qemu_io(url, *steps):
    """qemu-io's command with steps, its cache off."""
    return ["qemu-io", "-f", "raw", "-t", "none", *[word for step in steps for word in ("-c", step)], url]


def settled(url, model, source):
    """Blocks that are acknowledged as durable: some by FUA, all by the flush after them."""
    steps = []
    for _ in range(8):
        at, pattern = source.randrange(SIZE // 2 // BLOCK) * BLOCK, source.randrange(1, 256)
        fua = "-f " if source.random() < 0.5 else ""
        steps.append(f"write {fua}-P {pattern} {at} {BLOCK}")
        model[at : at + BLOCK] = bytes([pattern]) * BLOCK
    done = subprocess.run(qemu_io(url, *steps, "flush"), capture_output=True, text=True, timeout=TIME_LIMIT)
    if done.returncode != 0 or "failed" in done.stdout + done.stderr:
        raise RuntimeError(f"writing ended with {done.returncode}\n{done.stdout}{done.stderr}")


def one_round(folder, model, source):
    """Settled writes, a storm in the other half, a kill in its midst, and the volume read back by a new server's NVMe side."""
    volume = f"disk=file:{folder}/disk.img?size={SIZE}"
    server = Linerate(folder, [volume])
    settled(server.iscsi("disk"), model, source)
    storm = [f"aio_write -P {n % 255 + 1} {SIZE // 2 + n % (SIZE // 2 // BLOCK) * BLOCK} {BLOCK}" for n in range(4000)]
    client = subprocess.Popen(qemu_io(server.iscsi("disk"), *storm), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(source.uniform(0.02, 0.2))  # where in the storm it dies is the experiment's variable, not a wait for something
    server.process.kill()
    server.process.wait()
    client.kill()
    client.wait()
    with Linerate(folder, [volume]) as after:
        back = folder / "back.raw"
        back.unlink(missing_ok=True)
        subprocess.run([linerate_binary(), "copy", after.nvme("disk"), f"file:{back}?size={SIZE}", "--overwrite"], check=True, capture_output=True, timeout=TIME_LIMIT)
        half = SIZE // 2
        content = back.read_bytes()
        if content[:half] != model[:half]:
            at = next(at for at in range(half) if content[at] != model[at])
            raise RuntimeError(f"a durable block is lost: byte {at} holds {content[at]}, not {model[at]}")


def main():
    """Runs the rounds on one file."""
    account = Account("kill")
    source = random.Random(20)
    model = bytearray(SIZE)
    with temporary_folder() as name:
        for number in range(ROUNDS):
            with account.test(f"round {number + 1}"):
                one_round(Path(name), model, source)
    return account.close()


if __name__ == "__main__":
    sys.exit(main())
