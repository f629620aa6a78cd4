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
from adapter import Attach  # noqa: E402
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
    """`qemu-storage-daemon` with a vhost-user-blk device on a file."""

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
            "--blockdev", f"driver=file,node-name=file,filename={self.image}",
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


def device_is_killed(folder, server, ring):
    """The device is killed, and another one takes its place, under a load that verifies: no request fails, and no data is lost."""
    url = server.nvme("disk")
    device = Attach(folder, url, "vhost-user", "disk.sock")
    log = (folder / "check.log").open("w+")
    command = [linerate_binary(), "bench", f"vhost-user:{folder}/disk.sock?ring={ring}", "--rw", "randrw", "--qd", "16", "--verify", "--overwrite",
               "--runtime", str(KILLS * (PAUSE_SECONDS + 1) + 3), "--json"]
    load = subprocess.Popen([str(word) for word in command], stdout=log, stderr=subprocess.STDOUT)
    try:
        for _ in range(KILLS):
            time.sleep(PAUSE_SECONDS)
            device.process.kill()
            device.process.wait()
            device = Attach(folder, url, "vhost-user", "disk.sock")
        code = load.wait(COMMAND_SECONDS)
    finally:
        load.kill()
        load.wait()
        device.detach()
    log.seek(0)
    said = log.read()
    if code != 0 or '"verified"' not in said:
        raise RuntimeError(f"the load ended with {code}: {said}")


def qemu_is_killed(folder):
    """The same with QEMU's device, which keeps no track: everything is asked again."""
    with StorageDaemon(folder) as device:
        command = [linerate_binary(), "check", f"vhost-user:{device.socket}", "--overwrite"]
        load = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(2):
            time.sleep(PAUSE_SECONDS)
            device.process.kill()
            device.process.wait()
            device.start()
        said, _ = load.communicate(timeout=COMMAND_SECONDS)
        if load.returncode != 0:
            raise RuntimeError(f"check ended with {load.returncode}: {said}")


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
        test("misuse", misuse)
    return account.close()


if __name__ == "__main__":
    sys.exit(main())
