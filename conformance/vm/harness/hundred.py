"""A hundred connections over RDMA at a time, from the guest, over a network that is slow, loses, repeats and reorders: do they all go, and leave nothing behind?

The guest runs Linerate's own client (`crates/linerate/examples/churn.rs`), over software iWARP and RoCE, and the kernel's initiators over siw. The network is made bad inside of
the guest, by `netem`. The server is beside the guest, so that its memory, descriptors and connections are seen from outside.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from .footprint import Footprint
from .network import SERVER_ADDRESS, Network
from .process import HarnessError
from .server import ISCSI_PORT, NVME_PORT, Daemon, Judged, portals, volumes, with_libraries

IWARP, ROCE = 2, 4
"""How far the ports of these portals lie beyond the usual ones."""
UDP_PORT = 4792
"""Where RoCE's packets go: with a port of its own each process of the guest may be a client."""
CROWD_MIB = 32
KERNEL_MIB = 16
VOLUMES = {"ram": CROWD_MIB, "file": CROWD_MIB, "siw-nvme": KERNEL_MIB, "siw-iser": KERNEL_MIB}
"""The volumes and their sizes in MiB: two for the crowd, and one for each initiator of the kernel's."""
CORES = 2
CONNECTIONS = 320
"""What the server takes: about twice what there is at a time, and far less than come and go. Were they kept, the later ones would be refused."""
SETTLE_SECONDS = 120.0
"""How long the server may take to notice that peers have gone that did not say so: it pings after 30 s of silence, and waits for the answer for 15 s."""
MEMORY_KIB = 16384
"""How much more memory is no leak: buffers are kept for later, and what a round holds at its busiest differs by as much. A connection that is kept whole takes a quarter of a MiB; a round makes
hundreds."""
SEED = "LINERATE_SEED"
"""The environment variable that repeats a run's choices."""


class Hundred(Judged):
    """One server, and what it took of the machine at marks that the guest's script asks for."""

    script_seconds = 1500.0
    """Two rounds of a minute and a half under emulation, with the set-up of a hundred connections, and the time that it takes to notice peers that are gone."""
    expects_losses = True

    def __init__(self, network: Network, folder: Path, binary: Path) -> None:
        super().__init__(network, folder)
        self._program = binary.parents[1] / "debug" / "examples" / "churn"
        if not self._program.is_file():
            raise HarnessError(f"there is no {self._program}: build it with `cargo build -p linerate --example churn`")
        self._daemon = Daemon(self, binary, "linerate")
        self._seed = os.environ.get(SEED) or str(time.time_ns() % 1_000_000)
        self._marks: dict[str, Footprint] = {}

    def environment(self) -> dict[str, str]:
        ports = {"NVME_PORT": str(NVME_PORT + IWARP), "ISCSI_PORTAL": f"{SERVER_ADDRESS}:{ISCSI_PORT + IWARP}"}
        roce = {"ROCE_NVME_PORT": str(NVME_PORT + ROCE), "ROCE_ISCSI_PORT": str(ISCSI_PORT + ROCE), "UDP_PORT": str(UDP_PORT)}
        return {**super().environment(), **ports, **roce, "SERVER_ADDRESS": SERVER_ADDRESS, "SEED": self._seed}

    def start(self) -> None:
        print(f"# {SEED}={self._seed}", flush=True)
        urls = {name: f"ram:{size}M" if name == "ram" else f"file:{self.folder}/{name}.img?size={size}M" for name, size in VOLUMES.items()}
        self._daemon.start(["[daemon]", f"cores = {CORES}", "[limits]", f"connections = {CONNECTIONS}", *portals(IWARP, transport="iwarp"), *self._roce(), *volumes(urls)])

    def _roce(self) -> list[str]:
        """RoCE's portals, at a port of UDP that no kernel knows."""
        lines = portals(ROCE, transport="roce")
        return [more for line in lines for more in ((line, f"udp_port = {UDP_PORT}") if line.startswith("transport") else (line,))]

    def files(self) -> dict[str, Path]:
        return with_libraries("churn", self._program, self.folder)

    def obey(self, order: str) -> None:
        match order.split():
            case ["mark", name]:
                self._marks[name] = self._now()
                print(f"# the server {name}: {self._marks[name]}", flush=True)
            case ["settled", name, *memory]:
                self._settle(self._marks[name], MEMORY_KIB if memory else 1 << 40)
            case _:
                super().obey(order)

    def _now(self) -> Footprint:
        return Footprint.of(self._daemon.process)

    def _settle(self, mark: Footprint, memory: int) -> None:
        """Waits until the server has nothing more than at the mark."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while (more := (now := self._now()).beyond(mark, memory)) is not None:
            if time.monotonic() > deadline:
                raise HarnessError(f"the server keeps {more}")
            time.sleep(1)
        print(f"# the server, settled: {now}", flush=True)

    def shut_down(self) -> str | None:
        return self._daemon.shut_down()
