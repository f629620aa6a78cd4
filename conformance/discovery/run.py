#!/usr/bin/env python3
"""A thousand targets: found by libiscsi's `iscsi-ls` and by Linerate's own initiator and host, with a server that stays small.

libiscsi declares segments of 256 KiB and knows no answer in several parts; Linerate's initiator declares 8 KiB and puts the parts together; its host
reads a discovery log page of more than 1 MiB in pieces. Linux' clients do the same in the virtual machine (`conformance/vm`).

    run.py                  a Linerate of its own
    run.py --driver epoll   the reactor's loop for machines without io_uring
"""
import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent))
from harness import SUBSYSTEM, TARGET, Account, Linerate, linerate_binary, temporary_folder  # noqa: E402

COUNT = 1000
# Seconds for one discovery.
TIME_LIMIT = 60
# MiB that the server may hold after it was asked by everybody: a thousand exports and one event loop's buffers.
MEMORY_LIMIT = 128


def names():
    """The volumes."""
    return [f"volume-{number:04}" for number in range(COUNT)]


def configuration():
    """A thousand volumes without content, over both protocols."""
    lines = []
    for protocol in ("iscsi", "nvme"):
        lines += ["[[portal]]", f'protocol = "{protocol}"', 'listen = "127.0.0.1:0"']
    for name in names():
        lines += ["[[volume]]", f'name = "{name}"', 'url = "null:64M"']
    return "\n".join(lines) + "\n"


def found(prefix, *arguments):
    """Runs a command and gives the names of volumes in its output, in order."""
    run = subprocess.run([str(word) for word in arguments], capture_output=True, text=True, timeout=TIME_LIMIT)
    if run.returncode != 0:
        raise RuntimeError(f"{arguments[0]} ended with {run.returncode}\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
    words = run.stdout.replace("\t", " ").split()
    return sorted(word.removeprefix(f"{prefix}:") for word in (word.removeprefix("Target:") for word in words) if word.startswith(f"{prefix}:"))


def demand(seen):
    """Every volume, once."""
    if seen != names():
        missing, surplus = sorted(set(names()) - set(seen)), sorted(set(seen) - set(names()))
        raise RuntimeError(f"{len(seen)} of {COUNT} names\nmissing: {missing[:5]}\nsurplus: {surplus[:5]}")


def resident(process):
    """MiB that a process holds at most so far."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) >> 10


def main():
    """Parses the command line and runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--driver", default="auto", choices=("auto", "uring", "epoll"))
    arguments = parser.parse_args()
    account = Account("discovery")
    with temporary_folder() as folder, Linerate(folder, driver=arguments.driver, config=configuration()) as server:
        iscsi, nvme = (server.portals[protocol].strip() for protocol in ("iscsi", "nvme"))
        with account.test("iscsi-ls"):
            demand(found(TARGET, "iscsi-ls", f"iscsi://{iscsi}"))
        with account.test("linerate discover, iSCSI"):
            demand(found(TARGET, linerate_binary(), "discover", f"iscsi://{iscsi}"))
        with account.test("linerate discover, NVMe/TCP"):
            demand(found(SUBSYSTEM, linerate_binary(), "discover", f"nvme+tcp://{nvme}"))
        with account.test("memory"):
            held = resident(server.process)
            if held > MEMORY_LIMIT:
                raise RuntimeError(f"the server held {held} MiB, more than {MEMORY_LIMIT}")
    return account.close()


if __name__ == "__main__":
    sys.exit(main())
