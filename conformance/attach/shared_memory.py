#!/usr/bin/env python3
"""`vhost-user:` volumes: Linerate in the application's place, on devices of Linerate's adapter and of QEMU's storage daemon.

`shared_memory.py [--test NAME]`. The volume contract's suite (`cargo build -p linerate --example contract`) and `linerate`'s own commands use them; either side is killed under verified
load.
"""
import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(HERE.parent)]
import front_end  # noqa: E402
from adapter import Attach  # noqa: E402
from front_end import DATA, GUEST, INDIRECT_FLAG, NEXT, WRITE, FrontEnd  # noqa: E402
from harness import Account, Linerate, linerate_binary, temporary_folder  # noqa: E402
from harness.servers import STOP_SECONDS, wait_until  # noqa: E402

COMMAND_SECONDS = 600
SIZE = "64M"
# How often a device is killed and started again under load, and how long the load goes on between.
KILLS = 5
PAUSE_SECONDS = 0.7


def run(*command, check=True):
    """Runs a command; its output. A failure tells all it said."""
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=COMMAND_SECONDS)
    if check and result.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {result.returncode}\n{result.stdout}{result.stderr}")
    return result if not check else result.stdout


def contract(url, *faults):
    """The volume contract's suite."""
    suite = Path(linerate_binary()).resolve().parents[1] / "debug" / "examples" / "contract"
    run(suite, url, *faults)


class StorageDaemon:
    """`qemu-storage-daemon` with a vhost-user-blk device on a file, past the page cache: there a block is written whole or not at all."""

    def __init__(self, folder, *, queues=4):
        self.folder = Path(folder)
        self.socket = self.folder / "qemu.sock"
        self.log = self.folder / "qemu.log"
        self.image = self.folder / "qemu.img"
        with self.image.open("wb") as file:
            file.truncate(64 << 20)
        self.queues = queues
        self.start()

    def start(self):
        """Starts it, also again."""
        self.socket.unlink(missing_ok=True)
        command = [
            "qemu-storage-daemon",
            "--blockdev", f"driver=file,node-name=file,filename={self.image},cache.direct=on",
            "--blockdev", "driver=raw,node-name=disk,file=file",
            "--export", f"type=vhost-user-blk,id=disk,node-name=disk,addr.type=unix,addr.path={self.socket},writable=on,num-queues={self.queues},logical-block-size=512",
        ]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_until(self.socket.exists, self.process, self.log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(STOP_SECONDS)


def our_device(folder, volume, ring):
    """The contract on a device of our own."""
    with Attach(folder, volume, "vhost-user", "disk.sock") as device:
        contract(f"vhost-user:{folder}/{device.place}?ring={ring}")


def qemus_device(folder):
    """The contract on QEMU's."""
    with StorageDaemon(folder) as device:
        contract(f"vhost-user:{device.socket}")


def data_goes_through(folder, url):
    """What one program wrote is what another one reads."""
    source, back = folder / "source.raw", folder / "back.raw"
    source.write_bytes(os.urandom(64 << 20))
    run(linerate_binary(), "copy", f"file:{source}", url, "--overwrite")
    run(linerate_binary(), "copy", url, f"file:{back}?size={SIZE}", "--overwrite")
    if source.read_bytes() != back.read_bytes():
        raise RuntimeError("the copy differs from what was written")


def verified_load(url, folder, during):
    """A load that verifies, while `during` is done: no request fails, and no data is lost."""
    command = [linerate_binary(), "bench", url, "--rw", "randrw", "--qd", "16", "--verify", "--overwrite", "--runtime", str(KILLS * (PAUSE_SECONDS + 1) + 3), "--json"]
    with (folder / "check.log").open("w+") as log:
        load = subprocess.Popen([str(word) for word in command], stdout=log, stderr=subprocess.STDOUT)
        try:
            during()
            code = load.wait(COMMAND_SECONDS)
        finally:
            load.kill()
            load.wait()
        log.seek(0)
        said = log.read()
    if code != 0 or '"verified"' not in said:
        raise RuntimeError(f"the load ended with {code}: {said}")


def device_is_killed(folder, server, ring):
    """The device is killed, and another one takes its place, under load: what was under way is gone on with."""
    url = server.nvme("disk")
    device = Attach(folder, url, "vhost-user", "disk.sock")

    def kill():
        nonlocal device
        for _ in range(KILLS):
            time.sleep(PAUSE_SECONDS)
            device.process.kill()
            device.process.wait()
            device = Attach(folder, url, "vhost-user", "disk.sock")

    try:
        verified_load(f"vhost-user:{folder}/disk.sock?ring={ring}", folder, kill)
    finally:
        device.detach()


def qemu_is_killed(folder):
    """The same with QEMU's device, which keeps no track: everything is asked again."""
    with StorageDaemon(folder) as device:

        def kill():
            for _ in range(KILLS):
                time.sleep(PAUSE_SECONDS)
                device.process.kill()
                device.process.wait()
                device.start()

        verified_load(f"vhost-user:{device.socket}", folder, kill)


def user_is_killed(folder, server):
    """The user is killed under load: the device serves the next one, and says what is on the target."""
    with Attach(folder, server.nvme("disk"), "vhost-user", "disk.sock") as device:
        url = f"vhost-user:{folder}/{device.place}"
        for _ in range(3):
            command = [linerate_binary(), "bench", url, "--rw", "randwrite", "--qd", "32", "--overwrite", "--runtime", "60"]
            load = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(PAUSE_SECONDS)
            load.send_signal(signal.SIGKILL)
            load.wait()
        data_goes_through(folder, url)


def device_is_gone(folder):
    """Without a device requests fail once their time is over, and the reason is told."""
    device = Attach(folder, "ram:64M", "vhost-user", "disk.sock")
    command = [linerate_binary(), "bench", f"vhost-user:{folder}/disk.sock?reconnect=1s", "--runtime", "20"]
    load = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    time.sleep(PAUSE_SECONDS)
    device.process.kill()
    device.process.wait()
    said, _ = load.communicate(timeout=COMMAND_SECONDS)
    if load.returncode != 1 or "no path to the volume" not in said or "disk.sock" not in said:
        raise RuntimeError(f"the load ended with {load.returncode}: {said}")


def endless(front):
    front.describe(0, GUEST + DATA, 16, NEXT, 1)
    front.describe(1, GUEST + DATA, 16, NEXT, 0)
    front.offer(0)


def beyond_the_table(front):
    front.describe(0, GUEST + DATA, 16, NEXT, 999)
    front.offer(0)


def out_of_order(front):
    front.describe(0, GUEST + DATA, 16, NEXT | WRITE, 1)
    front.describe(1, GUEST + DATA, 16)
    front.offer(0)


def table_outside(front):
    front.describe(0, 1 << 60, 160, INDIRECT_FLAG)
    front.offer(0)


def too_many(front):
    front.describe(0, GUEST + DATA, 16)
    front.offer(0, count=5000)


def head_outside(front):
    front.offer(4711)


def cut_in_use(front):
    os.ftruncate(front.file, 0)
    front.kick()


# What breaks a queue, and what the adapter says of it.
VIOLATIONS = {
    endless: "a chain of descriptors does not end",
    beyond_the_table: "a descriptor is named that the queue does not have",
    out_of_order: "a buffer has memory to read behind memory to write",
    table_outside: "an indirect table is none",
    too_many: "the driver offers more buffers than its queue has descriptors",
    head_outside: "a descriptor is named that the queue does not have",
    cut_in_use: "memory was taken away that had been lent",
}


def failures_of_requests(front):
    """What is wrong with one request fails that request alone."""
    def status_of(*pieces):
        front.memory[DATA + 512] = 0xee
        for number, (address, length, flags) in enumerate(pieces):
            last = number == len(pieces) - 1
            front.describe(number, address, length, flags | (0 if last else NEXT), number + 1)
        front.offer(0)
        front.wait()
        return front.memory[DATA + 512]

    head, status = (GUEST + DATA, 16, 0), (GUEST + DATA + 512, 1, WRITE)
    front.header(front_end.WRITE_OUT, 0)
    cases = {
        "data outside": status_of(head, (1 << 50, 4096, 0), status),
        "half a block": status_of(head, (GUEST + DATA + 4096, 100, 0), status),
        "data across the end": status_of(head, (GUEST + len(front.memory) - 512, 4096, 0), status),
        "half a header": status_of((GUEST + DATA, 8, 0), status),
    }
    front.header(front_end.WRITE_OUT, 1 << 50)
    cases["beyond the volume"] = status_of(head, (GUEST + DATA + 4096, 512, 0), status)
    if set(cases.values()) != {1}:
        raise RuntimeError(f"these were to fail: {cases}")
    front.header(77, 0)
    if status_of(head, status) != 2:
        raise RuntimeError("an unknown request was not refused as such")
    # Without room for a status nobody can be told, and the buffer is given back.
    front.header(front_end.FLUSH, 0)
    status_of(head)


def noise(path):
    """Messages that are none."""
    for message in (b"", b"x", bytes(12), b"\xff" * 12, b"\xff" * 4096, bytes([1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xff])):
        with FrontEnd(path) as front:
            front.socket.sendall(message)
    with FrontEnd(path) as front:
        front.send(front_end.ADD_MEM_REG, bytes(40), file=None)
        front.send(front_end.SET_VRING_KICK, bytes(8), file=front.file)
    with FrontEnd(path) as front:
        refusals = [
            front.lend(length=0),
            front.lend(guest=(1 << 64) - 4096),
            front.tell(front_end.SET_VRING_NUM, bytes([200, 0, 0, 0, 16, 0, 0, 0])),
            front.tell(front_end.SET_VRING_NUM, bytes([0, 0, 0, 0, 0, 0, 1, 0])),
            front.tell(front_end.SET_FEATURES, b"\xff" * 8),
        ]
        if any(refusals):
            raise RuntimeError(f"these were to be refused: {refusals}")


def hostile(folder, volume):
    """Front ends that break rules lose their queue; one beside them, whose data is verified, notices nothing."""
    with Attach(folder, volume, "vhost-user", "disk.sock", "--cores", "1") as device:
        path = folder / device.place
        command = [linerate_binary(), "bench", f"vhost-user:{path}", "--rw", "randrw", "--qd", "8", "--verify", "--overwrite", "--runtime", "8", "--json"]
        neighbour = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            with FrontEnd(path) as front:
                if not (front.lend() and front.start()):
                    raise RuntimeError("a queue as it should be was refused")
                failures_of_requests(front)
                if front.request(front_end.READ, room=4096)[0] != 0:
                    raise RuntimeError("a request behind failed ones failed")
            for violation, words in VIOLATIONS.items():
                with FrontEnd(path) as front:
                    front.lend()
                    front.start()
                    violation(front)
                    if not front.is_broken():
                        raise RuntimeError(f"{violation.__name__}: the queue is served on")
                wait_until(lambda words=words: words in device.log.read_text(), device.process, device.log)
            noise(path)
            with FrontEnd(path) as front:
                front.lend()
                os.ftruncate(front.file, 4096)
                front.start(table=0x20_0000, available=0x28_0000, used=0x28_1000)
            said, _ = neighbour.communicate(timeout=COMMAND_SECONDS)
        finally:
            neighbour.kill()
            neighbour.wait()
        if neighbour.returncode != 0 or '"verified"' not in said:
            raise RuntimeError(f"the neighbour ended with {neighbour.returncode}: {said}")
        run(linerate_binary(), "check", f"vhost-user:{path}", "--overwrite")


def many_volumes(folder, server):
    """One process with several volumes, each at its place; one that cannot be opened is named."""
    places = [folder / name for name in ("one.sock", "two.sock")]
    more = (f"ram:{SIZE}", str(places[1]))
    with Attach(folder, server.nvme("disk"), "vhost-user", str(places[0]), *more):
        for place in places:
            data_goes_through(folder, f"vhost-user:{place}")
    with Attach(folder, server.nvme("disk"), "nbd", f"unix:{places[0]}", f"ram:{SIZE}", f"unix:{places[1]}"):
        for place in places:
            run("qemu-io", "-f", "raw", "-c", "write -P 90 0 64k", "-c", "read -P 90 0 64k", f"nbd+unix:///?socket={place}")
    for words, wanted in (
        ((f"ram:{SIZE}", "a.sock", "file:/absent/disk", "b.sock", "--as", "vhost-user"), "file:/absent/disk cannot be attached"),
        ((f"ram:{SIZE}", "a.sock", "ram:1M", "--as", "vhost-user"), "write URL PLACE for each volume"),
        ((f"ram:{SIZE}", "a", "ram:1M", "b", "--as", "fuse"), "--as nbd or --as vhost-user"),
    ):
        result = subprocess.run([str(linerate_binary()), "attach", *words], cwd=folder, capture_output=True, text=True, timeout=COMMAND_SECONDS)
        if result.returncode == 0 or wanted not in result.stderr:
            raise RuntimeError(f"{words} gave {result.returncode}: {result.stderr}")


def misuse(folder):
    """Each mistake is told in words."""
    for url, wanted in (
        (f"vhost-user:{folder}/absent.sock", "check that the device's process listens there"),
        ("vhost-user:x?ring=round", "write split or packed"),
        ("vhost-user:", "the path is missing"),
    ):
        result = run(linerate_binary(), "inspect", url, check=False)
        if result.returncode == 0 or wanted not in result.stderr:
            raise RuntimeError(f"{url} gave {result.returncode}: {result.stderr}")


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--test", default="", help="only tests whose name has this")
    chosen = arguments.parse_args()
    account = Account("shared memory")

    def test(name, function, *words):
        if chosen.test not in name:
            return
        with account.test(name), temporary_folder() as folder:
            function(Path(folder), *words)

    with temporary_folder() as folder, Linerate(folder, ["disk=ram:64M"]) as server:
        for ring in ("split", "packed"):
            test(f"contract, {ring}", our_device, f"ram:{SIZE}", ring)
            test(f"contract over NVMe/TCP, {ring}", our_device, server.nvme("disk"), ring)
            test(f"the device is killed, {ring}", device_is_killed, server, ring)
        test("contract, QEMU's device", qemus_device)
        test("QEMU's device is killed", qemu_is_killed)
        test("the user is killed", user_is_killed, server)
        test("the device is gone", device_is_gone)
        test("hostile front ends", hostile, server.nvme("disk"))
        test("several volumes", many_volumes, server)
        test("misuse", misuse)
    return account.close()


if __name__ == "__main__":
    sys.exit(main())
