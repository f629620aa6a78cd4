"""The kernel's own targets, LIO and nvmet, as peers of Linerate's clients: the guest serves, and the clients run beside it in the run's network.

The guest's script sets the targets up, says `# serving`, and takes orders on its serial line: `peers` over TCP, `peers_siw` over RDMA by software iWARP, `peers_rxe` by
software RoCE. The clients are two programs: the volume contract's suite (`cargo build -p linerate --example contract`), and `linerate`, which discovers, copies and compares, also
when a session ends in the middle or a link is cut. What a peer is known to do otherwise than the standards is named here, with what was seen.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .guest import Guest
from .network import GUEST_ADDRESS, Network
from .process import Child, HarnessError
from .server import CHAP_MUTUAL_SECRET, CHAP_MUTUAL_USER, CHAP_SECRET, CHAP_USER, ISCSI_PORT, NVME_PORT, SUBSYSTEM_PREFIX, TARGET_PREFIX, Server

SERVING = "# serving"
"""What the guest says when its targets are there."""
SUITE_SECONDS = 600.0
"""For one suite or copy. They take seconds; this is for a machine that has other things to do."""
NOTICE_SECONDS = 2.0
"""How long after a failure the emulator may take to end if the guest is why."""
SIZE = 24 << 20
"""Bytes of each volume, as guest/peers.sh makes them."""
WELL_BEGUN = 2 << 20
"""Bytes that have been copied before the session is ended."""

CHAP_OPTIONS = (
    f"chap_user={CHAP_USER}&chap_secret_env=CHAP_SECRET&chap_mutual_user={CHAP_MUTUAL_USER}&chap_mutual_secret_env=CHAP_MUTUAL_SECRET"
)
DIGESTS = {"iscsi": "header_digest=crc32c&data_digest=crc32c", "nvme": "header_digest=1&data_digest=1"}

ROCE = "transport=roce"

LIO = ("compare=1",)
"""LIO compares and writes one block at most, and says so in its block limits page."""
COPIES = ("torn",)
"""LIO's `rd_mcp` and `fileio`, `brd`, and nvmet on a file copy to and from memory that requests share, with no lock: a block then holds parts of two writes
that overlapped, now and then ("block 121 carries the stamp (1, 273), but from byte 96 on it is not that write's", of `rd_mcp`). `null_blk` has a lock."""

PATIENT = "reconnect=120s"
"""For suites over iSER: LIO waits 15 s for each initiator that left too early (see `_reach`), as a suite's tests do several times, and takes no other login meanwhile."""

CUT_SECONDS = 14.0
"""How long a link is cut: longer than a client waits for an answer."""


class HasUrl(Protocol):
    """What is reached by a URL."""

    @property
    def url(self) -> str:
        """For Linerate's clients."""


@dataclass(frozen=True)
class Peer:
    """A volume of the guest's, as a client reaches it."""

    protocol: str
    volume: str
    options: str = ""
    """Of its URL."""
    faults: tuple[str, ...] = ()
    """What of the peer's is known, in the words of `examples/contract`."""

    @property
    def name(self) -> str:
        """For results."""
        return "-".join([self.protocol, self.volume, *(["with-options"] if self.options else [])])

    @property
    def is_nvme(self) -> bool:
        """Whether it is nvmet's, and not LIO's."""
        return self.protocol.startswith("nvme")

    @property
    def target(self) -> str:
        """The name of its subsystem or target."""
        return f"{SUBSYSTEM_PREFIX if self.is_nvme else TARGET_PREFIX}:{self.volume}"

    @property
    def portal(self) -> str:
        """Where its name is discovered; without options."""
        scheme = {"iscsi": "iscsi", "iser": "iser", "nvme": "nvme+tcp"}.get(self.protocol, "nvme+rdma")
        return f"{scheme}://{GUEST_ADDRESS}:{NVME_PORT if self.is_nvme else ISCSI_PORT}"

    @property
    def query(self) -> str:
        """The options as they end a URL."""
        return f"?{self.options}" if self.options else ""

    @property
    def url(self) -> str:
        """For Linerate's clients."""
        return f"{self.portal}/{self.target}/{int(self.is_nvme)}{self.query}"

    @property
    def restart(self) -> str:
        """The order that ends its sessions."""
        return f"restart-{'nvme' if self.is_nvme else 'iscsi'} {self.volume}"


@dataclass(frozen=True)
class Trial:
    """What runs against the targets of one script."""

    discovered: tuple[Peer, ...]
    """Discovery has to tell their names."""
    suites: tuple[Peer, ...] = ()
    restarted: tuple[Peer, ...] = ()
    """Their sessions are ended while they are read."""
    cut: tuple[Peer, ...] = ()
    """Their link is cut while they are read."""


TRIALS = {
    "peers": Trial(
        discovered=(Peer("iscsi", "block"), Peer("nvme", "null")),
        suites=(
            Peer("iscsi", "memory", "", (*LIO, *COPIES)),
            Peer("iscsi", "memory", DIGESTS["iscsi"], (*LIO, *COPIES)),
            Peer("iscsi", "file", CHAP_OPTIONS, (*LIO, *COPIES)),
            Peer("iscsi", "block", "", LIO),
            Peer("nvme", "block", "", COPIES),
            Peer("nvme", "file", DIGESTS["nvme"], COPIES),
            Peer("nvme", "null"),
        ),
        restarted=(Peer("iscsi", "memory"), Peer("nvme", "block")),
    ),
    "peers_siw": Trial(
        discovered=(Peer("iser", "block"), Peer("nvme-iwarp", "null")),
        suites=(
            Peer("iser", "memory", "", (*LIO, *COPIES)),
            Peer("iser", "memory", "crc=1", (*LIO, *COPIES)),
            Peer("iser", "file", CHAP_OPTIONS, (*LIO, *COPIES)),
            Peer("iser", "block", "", LIO),
            Peer("nvme-iwarp", "block", "", COPIES),
            Peer("nvme-iwarp", "file", "crc=1", COPIES),
            Peer("nvme-iwarp", "null"),
        ),
        # Switching a target of LIO's off while it is read over iSER hangs in the guest now and then (once in four runs), and the target with it.
        restarted=(Peer("nvme-iwarp", "block"),),
        # LIO's iSER does not come back from a cut: it cannot answer (`isert_post_recv: ib_post_recv() failed with ret: -107`, `Got unknown fabric queue status`), keeps the
        # commands for ever, answers no login of any initiator any more, and the guest's `rmdir` of the target hangs.
        cut=(Peer("nvme-iwarp", "block"),),
    ),
    "peers_rxe": Trial(
        discovered=(Peer("iser", "block", ROCE), Peer("nvme-roce", "null", ROCE)),
        suites=(
            Peer("iser", "memory", ROCE, (*LIO, *COPIES)),
            Peer("iser", "file", f"{ROCE}&{CHAP_OPTIONS}", (*LIO, *COPIES)),
            Peer("iser", "block", ROCE, LIO),
            Peer("nvme-roce", "block", ROCE, COPIES),
            Peer("nvme-roce", "file", ROCE, COPIES),
            Peer("nvme-roce", "null", ROCE),
        ),
        restarted=(Peer("nvme-roce", "block", ROCE),),
        cut=(Peer("nvme-roce", "block", ROCE),),
    ),
}
"""By the guest's script."""


class Peers(Server):
    """The guest as the server, and the programs that use it."""

    def __init__(self, network: Network, folder: Path, binary: Path) -> None:
        super().__init__(network, folder)
        self._suite = binary.parents[1] / "debug" / "examples" / "contract"
        self._linerate = binary
        for program, remedy in ((binary, "cargo build --release"), (self._suite, "cargo build -p linerate --example contract")):
            if not program.is_file():
                raise HarnessError(f"there is no {program}: build it with `{remedy}`")

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "PEER_ADDRESS": GUEST_ADDRESS, "ISCSI_PORT": str(ISCSI_PORT)}

    def start(self) -> None:
        """The guest is the server: nothing is started here."""

    def tests(self, guest: Guest, child: Child, script: str) -> Iterator[tuple[str, Callable[[], None]]]:
        """Names, and what to do."""
        trial = TRIALS[script]
        for peer in trial.discovered:
            yield f"discover-{peer.protocol}", lambda peer=peer: self._discovered(peer)
        for peer in trial.suites:
            yield f"contract-{peer.name}", lambda peer=peer: self._contract(peer)
        for peer in trial.restarted:
            yield f"restart-{peer.name}", lambda peer=peer: self._read_through(peer, lambda: guest.order(child, peer.restart))
        for peer in trial.cut:
            yield f"cut-{peer.name}", lambda peer=peer: self._read_through(peer, lambda: self.network.cut((0,), CUT_SECONDS))

    def judge(self, guest: Guest, child: Child, script: str) -> Iterator[tuple[str, str | None]]:
        """Runs every test of a script's; gives its name and what went wrong. The guest is told to stop at the end. When the guest is lost, what a client says of
        it ("No route to host") is no verdict on the client: that test is told as the guest's loss, and the rest is not run."""
        for name, run in self.tests(guest, child, script):
            try:
                run()
                yield name, None
            except (HarnessError, subprocess.TimeoutExpired) as error:
                if child.wait(NOTICE_SECONDS) is not None:
                    yield name, f"the guest was lost: {guest.loss(child)}; the client said: {error}"
                    return
                yield name, str(error)
        guest.order(child, "stop")

    def _discovered(self, peer: Peer) -> None:
        """Discovery at the peer's portal tells its name."""
        if peer.target not in (said := self._run([self._linerate, "discover", peer.portal + peer.query])):
            raise HarnessError(f"discovery does not tell {peer.target}:\n{said}")

    def _reach(self, peer: Peer) -> None:
        """Asks until the portal answers. LIO takes one login at a time, and over iSER it waits 15 s for the login of an initiator that has left behind its MPA request, as
        suites do ("isert_get_login_rx: isert_conn … interrupted before got login req"). Another one's login times out meanwhile."""
        for last in (False, False, False, True):
            try:
                return self._discovered(Peer(peer.protocol, peer.volume, ROCE if ROCE in peer.options else ""))
            except HarnessError:
                if last:
                    raise

    def _contract(self, peer: Peer) -> None:
        """The volume contract's suite."""
        url = peer.url
        if peer.protocol == "iser":
            self._reach(peer)
            url += ("&" if peer.query else "?") + PATIENT
        self._run([self._suite, url, *peer.faults])

    def _says(self, argv: list[str | Path]) -> tuple[int, str]:
        """Runs a client; its exit code, and what it printed."""
        done = self._client(argv)
        return done.returncode, done.stdout + done.stderr

    def _run(self, argv: list[str | Path]) -> str:
        """Runs a client that has to succeed, and returns what it printed."""
        done = self._client(argv)
        if done.returncode != 0:
            raise HarnessError(done.stderr.strip() or f"{argv[0]} ended with {done.returncode}")
        return done.stdout

    def _client(self, argv: list[str | Path]) -> subprocess.CompletedProcess[str]:
        """Runs a client in the network."""
        environment = {**os.environ, "CHAP_SECRET": CHAP_SECRET, "CHAP_MUTUAL_SECRET": CHAP_MUTUAL_SECRET}
        inside = self.network.inside(argv)
        done = subprocess.run(inside, env=environment, capture_output=True, text=True, timeout=SUITE_SECONDS, check=False)
        with self.log.open("a") as log:
            log.write(done.stdout + done.stderr)
        return done

    def _read_through(self, peer: HasUrl, interrupt: Callable[[], None]) -> None:
        """The session ends while the volume is read, and the peer takes the next one: the copy goes on, and every byte is right."""
        source, back = self.folder / "source.raw", self.folder / "back.raw"
        source.write_bytes(secrets.token_bytes(SIZE))
        back.unlink(missing_ok=True)
        self._run([self._linerate, "copy", f"file:{source}", peer.url, "--overwrite"])
        copy = self.network.inside([self._linerate, "copy", f"limit=4M/s+{peer.url}", f"file:{back}?size={SIZE}", "--overwrite"])
        with self.log.open("ab") as log, Child(copy, stdout=subprocess.DEVNULL, stderr=log.fileno()) as reading:
            deadline = time.monotonic() + SUITE_SECONDS
            while not back.exists() or back.stat().st_blocks * 512 < WELL_BEGUN:
                if reading.exit_code() is not None or time.monotonic() > deadline:
                    raise HarnessError(f"the copy did not get going ({reading.exit_code()})")
                time.sleep(0.02)
            interrupt()
            if (code := reading.wait(SUITE_SECONDS)) != 0:
                raise HarnessError(f"the copy ended with {code}")
        self._run([self._linerate, "compare", f"file:{back}", peer.url])
        if back.read_bytes() != source.read_bytes():
            raise HarnessError("the copy differs from what was written")
