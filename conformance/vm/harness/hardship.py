"""What long runs do to the server and to the network: `crash` kills the server under file systems, `contend` also cuts the links of two initiators.

Both run `vm-guest` in the guest, the program beside this harness (conformance/vm/program).
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from .network import SECOND_SERVER_ADDRESS, SERVER_ADDRESS, Network
from .process import HarnessError
from .server import ISCSI_PORT, NVME_PORT, Daemon, Judged, portals, volumes, with_libraries

FILE_SYSTEMS = ("ext4", "xfs")
PROTOCOLS = ("iscsi", "nvme")
PAIRS = ("iscsi-iscsi", "nvme-nvme", "iscsi-nvme")
"""The two clients' protocols; each pair has a volume of this name."""
DATA_MIB = 64
"""A file system, and the disk onto which its writes are replayed."""
LOG_MIB = 512
CONTENDED_MIB = 16
SEED = "LINERATE_SEED"
"""The environment variable that repeats a run's choices; a run without it takes another each time, and prints it."""


class Hardship(Judged):
    """One server on files, killed and started again on demand."""

    script_seconds = 3000.0
    expects_losses = True

    def __init__(self, network: Network, folder: Path, binary: Path) -> None:
        super().__init__(network, folder)
        self._program = binary.parents[1] / "debug" / "vm-guest"
        if not self._program.is_file():
            raise HarnessError(f"there is no {self._program}: build it with `cargo build -p vm-guest`")
        self._daemon = Daemon(self, binary, "linerate")
        self._seed = os.environ.get(SEED) or str(time.time_ns() % 1_000_000)

    def sizes(self) -> dict[str, int]:
        """The volumes and their sizes in MiB."""
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "SEED": self._seed}

    def start(self) -> None:
        print(f"# {SEED}={self._seed}", flush=True)
        self._daemon.start(self._config())

    def files(self) -> dict[str, Path]:
        return with_libraries("vm-guest", self._program, self.folder)

    def obey(self, order: str) -> None:
        match order.split():
            case ["kill", "linerate"]:
                if (code := self._daemon.stop(signal.SIGKILL)) != -signal.SIGKILL:
                    raise HarnessError(f"the server ended with {code} on SIGKILL")
                self._daemon.start(self._config())
            case _:
                super().obey(order)

    def shut_down(self) -> str | None:
        return self._daemon.shut_down()

    def _config(self) -> list[str]:
        lines = portals(0)
        if self.network.links > 1:
            lines += portals(0, SECOND_SERVER_ADDRESS)
        return [*lines, *volumes({name: f"file:{self.folder}/{name}.img?size={size}M" for name, size in self.sizes().items()})]


class Crash(Hardship):
    """File systems over dm-log-writes."""

    def sizes(self) -> dict[str, int]:
        names = [f"{protocol}-{kind}" for protocol in PROTOCOLS for kind in FILE_SYSTEMS]
        return {name: DATA_MIB for name in names} | {f"{name}-log": LOG_MIB for name in names}

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "DATA_MIB": str(DATA_MIB)}


class Contend(Hardship):
    """Two initiators, each with a link and an address of the server's of its own."""

    def sizes(self) -> dict[str, int]:
        return {name: CONTENDED_MIB for name in PAIRS}

    def environment(self) -> dict[str, str]:
        second = {"SECOND_ISCSI_PORTAL": f"{SECOND_SERVER_ADDRESS}:{ISCSI_PORT}", "SECOND_NVME_ADDRESS": SECOND_SERVER_ADDRESS}
        return {**super().environment(), **second, "NVME_PORT": str(NVME_PORT), "NVME_ADDRESS": SERVER_ADDRESS, "PAIRS": " ".join(PAIRS)}

    def obey(self, order: str) -> None:
        match order.split():
            case ["cut", which, seconds]:
                links = {"first": (0,), "second": (1,), "both": (0, 1)}[which]
                self.network.cut(links, float(seconds))
            case _:
                super().obey(order)
