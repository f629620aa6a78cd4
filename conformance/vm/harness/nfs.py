"""Folders over NFS: the guest's own client against `linerate serve`, which is also killed and started again under it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from .network import SECOND_SERVER_ADDRESS, SERVER_ADDRESS, SERVER_ADDRESSES, Network
from .process import HarnessError
from .server import Daemon, Judged

PORT = 2049
RDMA_PORT = 20049
ROCE_PORT = 20050
ENTRIES = 100_000
"""Files of the folders that the guest lists: one stays as it is, one changes meanwhile."""


class Nfs(Judged):
    """`linerate serve` with shares: one that the guest's root may do everything in, one of many files, one where root is nobody, one that can only be read."""

    entries = ENTRIES
    expects_losses = True
    script_seconds = 1200.0
    """A script does the same by several versions, or by several transports."""

    def __init__(self, network: Network, folder: Path, binary: Path) -> None:
        super().__init__(network, folder)
        self._daemon = Daemon(self, binary, "nfs")

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "NFS_SERVER": SERVER_ADDRESS, "SECOND_NFS_SERVER": SECOND_SERVER_ADDRESS, "NFS_PORT": str(PORT), "NFS_ENTRIES": str(self.entries), "NFS_RDMA_PORT": str(RDMA_PORT), "NFS_ROCE_PORT": str(ROCE_PORT)}

    def start(self) -> None:
        for name in ("files", "squashed", "fixed", "changing"):
            (self.folder / name).mkdir()
        os.chmod(self.folder, 0o755)
        os.chmod(self.folder / "squashed", 0o777)
        many = self.folder / "fixed" / "many"
        many.mkdir()
        for number in range(self.entries):
            (many / f"entry-{number:05}").touch()
            (self.folder / "changing" / f"entry-{number:05}").touch()
        (self.folder / "fixed" / "content").write_bytes(bytes(range(256)) * 4096)
        self._daemon.start(self._config())

    def obey(self, order: str) -> None:
        match order.split():
            case ["kill"]:
                self._daemon.stop(signal.SIGKILL)
                self._daemon.start(self._config())
            case ["restart"]:
                if (code := self._daemon.stop()) != 0:
                    raise HarnessError(f"the server ended with {code} on SIGTERM")
                self._daemon.start(self._config())
            case ["compare", name, other]:
                if (self.folder / "files" / name).read_bytes() != (self.folder / "files" / other).read_bytes():
                    raise HarnessError(f"{name} and {other} differ in the server's folder")
            case ["owner", name, owner]:
                if (found := (self.folder / name).stat().st_uid) != int(owner):
                    raise HarnessError(f"{name} belongs to {found} in the server's folder")
            case ["blocks", name, most]:
                if (found := (self.folder / "files" / name).stat().st_blocks) > int(most):
                    raise HarnessError(f"{name} occupies {found} blocks in the server's folder")
            case _:
                super().obey(order)

    def shut_down(self) -> str | None:
        return self._daemon.shut_down()

    def _config(self) -> list[str]:
        lines = ["[daemon]", "cores = 2"]
        portals = [(address, "tcp", PORT) for address in SERVER_ADDRESSES[: self.network.links]]
        portals += [(SERVER_ADDRESS, "iwarp", RDMA_PORT), (SERVER_ADDRESS, "roce", ROCE_PORT)]
        for address, transport, port in portals:
            lines += ["[[portal]]", 'protocol = "nfs"', f'transport = "{transport}"', f'listen = "{address}:{port}"']
        for name, squash, options in (("files", "none", ""), ("changing", "none", ""), ("squashed", "root", ""), ("fixed", "none", "?readonly=1")):
            lines += ["[[share]]", f'name = "{name}"', f'url = "dir:{self.folder / name}{options}"', f'squash = "{squash}"']
        return lines
