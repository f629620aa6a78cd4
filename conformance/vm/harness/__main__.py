"""The command line: `run` judges Linerate's targets and `peers` its clients, `selftest` judges the harness, `shell` is for looking around, `prepare` only fills the cache, `emulator` with QEMU of another release."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from . import emulator, image
from .guest import Guest, GuestTimeoutError, Loss
from .hardship import Contend, Crash
from .hundred import Hundred
from .network import Network, require_root
from .nfs import Nfs
from .nfs_peer import NfsPeer
from .peers import SERVING, Peers
from .posix import Posix
from .process import Child, HarnessError
from .rdma import Rdma
from .results import Report, Result
from .server import Judged, Linerate, Server, Tgt
from .verbs import Verbs

CHECKOUT = Path(__file__).resolve().parents[3]
KERNELS = ("6.1", "6.12")
SCRIPTS = ("iscsi", "iscsi_chap", "nvme", "cross", "reserve", "multipath", "reload", "vhost", "ublk")
WITHOUT_UBLK = "6.1"
"""A kernel of Debian's whose driver is not there, or too old."""
SELFTEST_SCRIPTS = ("iscsi", "iscsi_chap", "nvme", "siw", "rxe")
PEERS_SCRIPTS = ("peers",)
PEERS_MORE = ("peers_siw", "peers_rxe")
"""Those over RDMA, which run only by name."""
RDMA_SCRIPTS = ("iwarp", "roce")
RDMA_MORE = ("iwarp_strict",)
"""Scripts that run only by name."""
VERBS_SCRIPTS = ("verbs_siw", "verbs_rxe")
NFS_SCRIPTS = ("nfs", "nfs_restart", "nfs_rdma", "nfs_two")
NFS_PEER_SCRIPTS = ("nfs_peer",)
POSIX_SCRIPTS = ("posix",)
HARDSHIPS = {"crash": Crash, "contend": Contend, "hundred": Hundred}
"""Commands with one script of the same name each."""
SCRIPTS_OF = {"run": SCRIPTS, "selftest": SELFTEST_SCRIPTS, "peers": (*PEERS_SCRIPTS, *PEERS_MORE), "rdma": (*RDMA_SCRIPTS, *RDMA_MORE), "verbs": VERBS_SCRIPTS, "nfs": NFS_SCRIPTS}
"""Commands whose scripts can be chosen."""
LINKS = {"contend": 2, "nfs": 2}
"""Links of the guest's, where one is not enough."""
BOOT_SECONDS = 180.0
MORE_BOOTS = 2
"""How often a guest is booted again that was gone before its first script: on several emulated processors a kernel that changes its own code
sometimes runs into the breakpoint of its own change (`Oops: int3`). Nothing that is tested runs by then."""
ATTEMPTS = 2
"""How often a run is made, from a new network and a new server on, when its guest is lost because the kernel or the emulator broke down."""
ASKS = "# ask "
"""How a line of the guest's begins that asks for something; the guest then waits for one line."""
SAW = "# saw "
"""How a line of the guest's begins that is worth telling of a success too."""
SHOWN_LINES = 40
"""How much of a log is printed with a failure."""


def main() -> int:
    """Runs one command. 0: all passed, 1: something failed, 2: nothing could be judged."""
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))
    try:
        cache = Path(os.environ.get("LINERATE_CACHE", CHECKOUT / ".cache")).resolve() / "vm"
        if options.command == "emulator":
            print(emulator.prepare(cache, options.release, refresh=options.refresh))
            return 0
        if options.command != "prepare":
            require_root()
        booted = image.prepare(cache, options.kernel, refresh=options.refresh)
        if options.command == "prepare":
            print(booted.kernel.parent)
            return 0
        return max(attempts(options, (cache, booted), together) for together in boots(options))
    except HarnessError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def attempts(options: argparse.Namespace, place: tuple[Path, image.Image], together: tuple[str, ...]) -> int:
    """Runs scripts in one guest, anew where the kernel or the emulator broke down. Returns the exit status."""
    for attempt in range(ATTEMPTS):
        verdict = attend(options, place, together, last=attempt + 1 == ATTEMPTS)
        if verdict is not None:
            return verdict
    return 2


def attend(options: argparse.Namespace, place: tuple[Path, image.Image], together: tuple[str, ...], *, last: bool) -> int | None:
    """One guest with its network and server, all of them new. Returns the exit status, or None when the guest was lost by the kernel's or the
    emulator's own fault and may be tried again."""
    cache, booted = place
    with tempfile.TemporaryDirectory(dir=cache, prefix="run-") as name, Network(LINKS.get(options.command, 1)) as network:
        folder = Path(name)
        with server(options, network, folder) as serving:
            guest = Guest(booted, network, folder, serving.environment(), together, tuple(serving.devices()), serving.files())
            if options.command == "shell":
                guest.shell()
                return 0
            return judge(guest, serving, last=last)


def arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(prog="conformance/vm/run", description="Linux' own initiators, in a virtual machine, against Linerate")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, purpose in {
        "run": "boot one guest, run scripts in it against `linerate serve`, print their results",
        "peers": "boot one guest with LIO and nvmet, over TCP or RDMA, run the volume contract's suite and `linerate copy` against them, print the results",
        "rdma": "boot one guest whose initiators come over RDMA, with its software adapters, and cut its link",
        "verbs": "boot one guest with Linerate in it, on the guest's RDMA adapters by libibverbs, against the kernel's initiators and targets and itself",
        "nfs": "the guest's own NFS client against folders of `linerate serve`, which is killed and started again under it",
        "nfs-peer": "boot one guest with the kernel's own NFS server, run the volume contract's suite and `linerate copy` against it, and restart it under them",
        "posix": "pjdfstest, fsx and dbench on mounts of folders of `linerate serve`",
        "crash": "file systems over dm-log-writes on a server that is killed; every settled state of the log is checked",
        "contend": "two initiators take a disk from each other while links are cut and the server is killed; their history is judged",
        "hundred": "a hundred connections over RDMA come and go, over a network that is slow, loses, repeats and reorders; the server is to be as before",
        "selftest": "the same scripts against tgt and the kernel's own NVMe target",
        "shell": "boot the guest with a shell on this terminal, and the server running",
        "prepare": "only fetch the packages and build the image",
        "emulator": "fetch QEMU of another release, and print the folder of its programs, to be put in front of PATH",
    }.items():
        command = commands.add_parser(name, help=purpose, description=purpose)
        if name == "emulator":
            command.add_argument("--release", choices=emulator.RELEASES, default=emulator.RELEASES[0], help="Debian's release (default: %(default)s)")
        command.add_argument("--kernel", choices=KERNELS, default="6.12", help="Debian's kernel series (default: %(default)s)")
        command.add_argument("--refresh", action="store_true", help="look for newer packages")
        if name in SCRIPTS_OF:
            command.add_argument("--script", action="append", choices=SCRIPTS_OF[name], help="only this script; may be repeated")
        if name in ("run", "peers", "rdma", "verbs", "nfs", "nfs-peer", "posix", "shell", *HARDSHIPS):
            command.add_argument("--server", type=Path, default=built_binary(), help="the linerate binary (default: %(default)s)")
    return parser.parse_args()


def built_binary() -> Path:
    """Where cargo puts the release build."""
    return Path(os.environ.get("CARGO_TARGET_DIR", CHECKOUT / "target")) / "release" / "linerate"


def scripts(options: argparse.Namespace) -> tuple[str, ...]:
    """The guest scripts to run, in order."""
    own = {name: (name,) for name in HARDSHIPS}
    default = {"selftest": SELFTEST_SCRIPTS, "peers": PEERS_SCRIPTS, "rdma": RDMA_SCRIPTS, "verbs": VERBS_SCRIPTS, "nfs": NFS_SCRIPTS, "nfs-peer": NFS_PEER_SCRIPTS, "posix": POSIX_SCRIPTS, **own}.get(options.command, SCRIPTS)
    if options.kernel == WITHOUT_UBLK:
        default = tuple(script for script in default if script != "ublk")
    return tuple(getattr(options, "script", None) or default)


def boots(options: argparse.Namespace) -> list[tuple[str, ...]]:
    """The scripts to run, by guests. Where the guest serves, each has one of its own: LIO's targets over iSER stay until it is switched off."""
    if options.command in ("peers", "verbs"):
        return [(script,) for script in scripts(options)]
    return [scripts(options)]


def server(options: argparse.Namespace, network: Network, folder: Path) -> Server:
    """What the guest will talk to."""
    if options.command == "selftest":
        return Tgt(network, folder)
    if options.command == "peers":
        return Peers(network, folder, options.server)
    return {**HARDSHIPS, "rdma": Rdma, "verbs": Verbs, "nfs": Nfs, "nfs-peer": NfsPeer, "posix": Posix}.get(options.command, Linerate)(network, folder, options.server)


def judge(guest: Guest, serving: Server, *, last: bool) -> int | None:
    """Boots the guest, prints each result as it comes, and then the sum. None: the guest's kernel broke down or the guest was lost, and, as this is not the
    `last` attempt, nothing is judged."""
    start = time.monotonic()
    report = Report(guest.scripts)
    print(f"# {guest.image.release}, scripts {' '.join(guest.scripts)}", flush=True)
    why, loss = converse(guest, report, serving)
    for _ in range(MORE_BOOTS):
        if not report.untouched:
            break
        ended = guest.console.read_text(errors="replace").splitlines()[-1:]
        print(f"# {why} before the first script, which is the emulator's doing; booted again. Its last words: {''.join(ended)}", flush=True)
        why, loss = converse(guest, report, serving)
    lost = loss is not None and not report.complete
    if lost:
        print(f"# the guest was lost: {loss}. The end of its console:", flush=True)
        excerpt("console", list(loss.console))
    # A kernel that breaks down may go on for as long as the scripts do.
    broke_down = loss is not None and (loss.foreign if lost else loss.oops is not None)
    if broke_down and not last:
        print(f"# that is the kernel's or the emulator's own fault ({loss}): run again, once", flush=True)
        return None
    ends = [*report.finish(why if loss is None else f"{why}: {loss}"), report.kernel(guest.console.read_text(errors="replace"), losses=serving.expects_losses)]
    if isinstance(serving, Judged):
        ends.append(report.add("server/shutdown", serving.shut_down()))
    for result in ends:
        show(result)
    if report.failed:
        excerpt("kernel console", guest.console.read_text(errors="replace").splitlines())
        excerpt("server", serving.tail())
    print(f"{len(report.results) - report.failed} passed, {report.failed} failed ({time.monotonic() - start:.0f} s)")
    return 1 if report.failed else 0


def converse(guest: Guest, report: Report, serving: Server) -> tuple[str, Loss | None]:
    """Reads the guest's lines into the report until it is gone. Returns why it is gone, and how it ended if it ended by itself."""
    start = time.monotonic()
    deadline = start + BOOT_SECONDS
    with guest.boot() as child:
        try:
            while (line := guest.read_line(child, deadline)) is not None:
                before = report.running
                if line == SERVING and isinstance(serving, Peers):
                    judge_clients(guest, child, (report, serving))
                    deadline = time.monotonic() + serving.script_seconds
                elif line.startswith(ASKS):
                    answer(child, serving, line.removeprefix(ASKS))
                elif line.startswith(SAW):
                    print(line, flush=True)
                elif result := report.line(line):
                    show(result)
                if report.running != before:
                    deadline = time.monotonic() + serving.script_seconds
                    print(f"# {time.monotonic() - start:.1f} s: {line.removeprefix('# ')}", flush=True)
        except GuestTimeoutError:
            limit = serving.script_seconds if report.running else BOOT_SECONDS
            return f"the guest was given up after {limit:.0f} s of this machine's time", None
        return "the guest is gone", guest.loss(child)


def answer(child: Child, serving: Server, order: str) -> None:
    """The guest asks for something to be done to its servers: does it, and says how that went."""
    try:
        serving.obey(order)
        said = "done"
    except HarnessError as error:
        said = f"not done: {error}".replace("\n", " ")
    child.write(f"{said}\n".encode())


def judge_clients(guest: Guest, child: Child, account: tuple[Report, Peers]) -> None:
    """The guest serves: runs the clients against it."""
    report, peers = account
    start = time.monotonic()
    for name, reason in peers.judge(guest, child, report.running or ""):
        show(report.add(name, reason))
    print(f"# {time.monotonic() - start:.1f} s for the clients", flush=True)


def show(result: Result) -> None:
    """Prints a result; what was logged before it too, if it is a failure."""
    print(result, flush=True)
    if result.reason is not None:
        excerpt("log", list(result.log))


def excerpt(title: str, lines: list[str]) -> None:
    """Prints the end of a log, set off from the results."""
    for line in lines[-SHOWN_LINES:]:
        print(f"    {title} | {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
