#!/usr/bin/env python3
"""The demonstration behind `make run`: one process, three protocols, clients that nobody here wrote, data verified.

Serves null, RAM and file volumes on free ports of loopback; lets libiscsi find them; writes a real disk image by QEMU over iSCSI; reads it
back with Linerate's host over NVMe/TCP, and over RDMA; compares checksums; attaches a volume, so that QEMU reads it where it speaks neither protocol; serves a folder
over NFS, which libnfs lists and copies from; and measures each block protocol for a few seconds. Leaves nothing behind.
"""
import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "conformance"))
from harness import Linerate, linerate_binary, temporary_folder  # noqa: E402

SIZE = 64 << 20
# Seconds for each protocol's figure.
RUNTIME = 5


def say(words):
    """A headline of the demonstration."""
    print(f"\n\033[1m{words}\033[0m" if sys.stdout.isatty() else f"\n{words}", flush=True)


def command(*words, quiet=True):
    """Runs a command; ends the demonstration with its output if it fails."""
    words = [str(word) for word in words]
    print(f"  $ {' '.join(words).replace(str(ROOT) + '/', '')}", flush=True)
    # Progress is on standard error, and is for whoever watches.
    run = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE if quiet else None, text=True)
    if run.returncode != 0:
        sys.exit(f"  failed with {run.returncode}:\n{run.stdout}{run.stderr or ''}")
    return run.stdout


def make_image(folder):
    """A compressed qcow2 that holds an ext4 file system with this project's own files."""
    raw, image = folder / "image.raw", folder / "image.qcow2"
    with raw.open("wb") as out:
        out.truncate(SIZE)
    command("/sbin/mkfs.ext4", "-q", "-d", ROOT / "crates", raw)
    command("qemu-img", "convert", "-c", "-f", "raw", "-O", "qcow2", raw, image)
    (folder / "files" / image.name).write_bytes(image.read_bytes())
    return image, checksum(raw)


def checksum(path):
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_and_read(server, folder):
    """The image goes in over iSCSI and comes out over NVMe/TCP."""
    say("A real image: QEMU writes it over iSCSI, Linerate reads it back over NVMe/TCP")
    image, written = make_image(folder)
    for volume in ("ram", "file"):
        command("qemu-img", "convert", "-n", "-f", "qcow2", "-O", "raw", image, server.iscsi(volume))
        back = folder / f"{volume}.back"
        command(linerate_binary(), "copy", server.nvme(volume), f"file:{back}?size={SIZE}", "--overwrite")
        read = checksum(back)
        print(f"  written {written[:16]}…  read {read[:16]}…  {'equal' if read == written else 'DIFFERENT'}")
        if read != written:
            sys.exit(f"the {volume} volume gave back something else")


def over_rdma(server, folder):
    """The same volume over RDMA: copied out by NVMe/RDMA, and compared by iSER."""
    say("The same volume over RDMA, on software iWARP: no adapter, no kernel module, no privilege")
    back = f"file:{folder}/rdma.back"
    command(linerate_binary(), "copy", server.nvme_rdma("ram"), f"{back}?size={SIZE}", "--overwrite")
    print("  " + command(linerate_binary(), "compare", back, server.iser("ram")).strip())
    if checksum(folder / "rdma.back") != checksum(folder / "image.raw"):
        sys.exit("NVMe/RDMA gave something else than the image")


def attach(server, folder):
    """The software adapter: QEMU compares the image with the volume through NBD, and both protocols give the same checksum."""
    say("The software adapter: Linerate speaks NVMe/TCP for QEMU, which compares the image through NBD")
    sums = {command(linerate_binary(), "checksum", url).split()[0] for url in (server.iscsi("ram"), server.nvme("ram"))}
    print(f"  over iSCSI and NVMe/TCP: {' and '.join(one[:16] + '…' for one in sorted(sums))}{'' if len(sums) > 1 else ', equal'}")
    if sums != {checksum(folder / "image.raw")}:
        sys.exit("the two protocols gave different data, or not the image's")
    socket, ready = folder / "disk.sock", folder / "attached"
    words = [linerate_binary(), "attach", server.nvme("ram"), f"unix:{socket}", "--as", "nbd", "--read-only", "--ready-file", ready]
    print(f"  $ {' '.join(map(str, words)).replace(str(ROOT) + '/', '')} &", flush=True)
    with (folder / "attach.log").open("w+") as log:
        adapter = subprocess.Popen(words, stdout=log, stderr=log)
        try:
            while not ready.exists() and adapter.poll() is None:
                time.sleep(0.01)
            if adapter.poll() is None:
                print("  " + command("qemu-img", "compare", "-f", "raw", "-F", "raw", folder / "image.raw", f"nbd+unix:///?socket={socket}").strip())
        finally:
            adapter.terminate()
        if adapter.wait(timeout=30) != 0 or socket.exists():
            log.seek(0)
            sys.exit(f"the adapter did not end well:\n{log.read()}")


def files(server, folder):
    """A folder over NFS: libnfs lists it, copies the image out of it, and a file into it."""
    say("A folder over NFS: libnfs lists it, and copies the image out and a file in")
    print(command("nfs-ls", server.nfs("files")), end="")
    back, note = folder / "nfs.back", folder / "note"
    command("nfs-cp", server.nfs("files", "image.qcow2"), back)
    equal = checksum(back) == checksum(folder / "files" / "image.qcow2")
    print(f"  in the folder {checksum(folder / 'files' / 'image.qcow2')[:16]}…  by NFS {checksum(back)[:16]}…  {'equal' if equal else 'DIFFERENT'}")
    note.write_text("hello\n")
    command("nfs-cp", note, server.nfs("files", "note"))
    if not equal or command("nfs-cat", server.nfs("files", "note")) != "hello\n":
        sys.exit("the folder gave back something else")


def measure(server):
    """A figure per protocol, on the volume that costs nothing."""
    say(f"4 KiB random reads, 32 in flight, {RUNTIME} seconds each, on the null volume")
    for protocol, url in (("iSCSI", server.iscsi("null")), ("NVMe/TCP", server.nvme("null"))):
        words = ("bench", url, "--rw", "randread", "--bs", "4k", "--qd", "32", "--runtime", RUNTIME, "--json")
        figure = json.loads(command(linerate_binary(), *words, quiet=False))
        latency = figure["latency_us"]
        print(f"  {protocol:9}{figure['iops']:12,.0f} IOPS {figure['mb_per_s']:8,.0f} MB/s   p50 {latency['p50']:.0f} µs   p99 {latency['p99']:.0f} µs", flush=True)
        if figure["errors"]:
            sys.exit(f"{figure['errors']} errors")


def quick_lab():
    """The quick lab: our initiator and libiscsi, in pairs, with a report. `LAB=0` leaves it out."""
    if os.environ.get("LAB") == "0":
        say("The quick lab is left out, as LAB=0 says")
        return
    say("The quick lab: two initiators against two targets, in pairs (up to three minutes; LAB=0 leaves it out)")
    runs = ROOT / "target" / "lab-runs"
    words = [linerate_binary(), "lab", "run", "quick", "--budget", "170s", "--runs", runs]
    print(f"  $ {' '.join(map(str, words)).replace(str(ROOT) + '/', '')}", flush=True)
    ended = subprocess.run(words, check=False)
    if ended.returncode:
        sys.exit(f"the quick lab ended with exit status {ended.returncode}")


def main():
    """The demonstration, in order."""
    started = time.monotonic()
    with temporary_folder() as name:
        folder = Path(name)
        volumes = [f"null=null:{SIZE}", f"ram=ram:{SIZE}", f"file=file:{folder}/file.img?size={SIZE}"]
        # Whoever asks is nobody there: root of a client is squashed.
        folder.chmod(0o755)
        (folder / "files").mkdir()
        (folder / "files").chmod(0o777)
        volumes.append(f"files=dir:{folder}/files")
        say("One ordinary process serves three volumes over iSCSI and NVMe/TCP, and a folder over NFS")
        with Linerate(folder, volumes) as server:
            print(f"  iscsi {server.portals['iscsi']}   nvme {server.portals['nvme']}   nfs {server.portals['nfs']}")
            say("libiscsi finds them")
            found = command("iscsi-ls", f"iscsi://{server.portals['iscsi']}")
            print(found, end="")
            if any(f":{name}" not in found for name in ("null", "ram", "file")):
                sys.exit("iscsi-ls did not find all three")
            write_and_read(server, folder)
            over_rdma(server, folder)
            attach(server, folder)
            files(server, folder)
            measure(server)
    quick_lab()
    say("Connect to it yourself")
    print("  make serve              the same, on ports 3260 and 4420, until Ctrl-C; prints the commands for Linux, QEMU and libiscsi")
    print("  docs/howto/connect.md   Linux, Windows, ESXi, QEMU, step by step")
    print("  docs/howto/nfs.md       folders: who may do what, and what a restart does to clients")
    print(f"\nAll well, in {time.monotonic() - started:.0f} s.")


if __name__ == "__main__":
    main()
