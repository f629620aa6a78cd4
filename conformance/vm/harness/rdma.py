"""Linux' initiators over RDMA: NVMe/RDMA and iSER, by the guest's software adapters, against portals of Linerate's that speak iWARP and RoCE in user space."""

from __future__ import annotations

from pathlib import Path

from .network import SERVER_ADDRESS, Network
from .server import ISCSI_PORT, NVME_PORT, Daemon, Judged, portals, volumes

IWARP = 2
"""How far the ports of iWARP's portals lie beyond the usual ones."""
ROCE = 4
"""The same of RoCE's portals, whose packets all go to UDP port 4791."""
VOLUMES = {"ram": 96, "file": 96}
"""The volumes and their sizes in MiB."""


class Rdma(Judged):
    """One server with portals for TCP and for RDMA. Links are cut, so the guest loses sessions."""

    expects_losses = True
    script_seconds = 1200.0
    """Lost packets and cuts take their time, above all under emulation."""

    def __init__(self, network: Network, folder: Path, binary: Path) -> None:
        super().__init__(network, folder)
        self._daemon = Daemon(self, binary, "linerate")

    def environment(self) -> dict[str, str]:
        iwarp = {"IWARP_ISCSI_PORTAL": f"{SERVER_ADDRESS}:{ISCSI_PORT + IWARP}", "IWARP_NVME_PORT": str(NVME_PORT + IWARP)}
        roce = {"ROCE_ISCSI_PORTAL": f"{SERVER_ADDRESS}:{ISCSI_PORT + ROCE}", "ROCE_NVME_PORT": str(NVME_PORT + ROCE)}
        return {**super().environment(), **iwarp, **roce}

    def start(self) -> None:
        urls = {name: f"file:{self.folder}/{name}.img?size={size}M" if name == "file" else f"ram:{size}M" for name, size in VOLUMES.items()}
        rdma = [*portals(IWARP, transport="iwarp"), *portals(ROCE, transport="roce")]
        self._daemon.start([*portals(0), *rdma, *volumes(urls)])

    def obey(self, order: str) -> None:
        match order.split():
            case ["cut", seconds]:
                self.network.cut((0,), float(seconds))
            case ["lose", percent]:
                self.network.lose(int(percent))
            case _:
                super().obey(order)

    def shut_down(self) -> str | None:
        return self._daemon.shut_down()
