"""Linerate inside the guest, on the guest's RDMA adapters by libibverbs: it serves the kernel's own initiators, and uses the kernel's own targets and itself.

Nothing of ours runs beside the guest: the program goes into it, with the contract suites of queue pairs and of volumes, and loads the libraries of the guest's own
packages.
"""

from __future__ import annotations

import re
from pathlib import Path

from .network import GUEST_ADDRESS, Network
from .process import HarnessError
from .server import ISCSI_PORT, Server, with_libraries

HOWTO = Path(__file__).resolve().parents[3] / "docs/howto/rdma.md"
HOWTO_ADDRESS = "192.0.2.1"
REMEDY = "cargo build --release && cargo build -p ibverbs --example verbs-contract && cargo build -p linerate --example contract"

class Verbs(Server):
    """The guest with itself."""

    script_seconds = 1800.0
    """A software adapter under emulation, at both ends."""
    def __init__(self, network: Network, folder: Path, binary: Path) -> None:
        super().__init__(network, folder)
        examples = binary.parents[1] / "debug" / "examples"
        self._programs = {"linerate": binary, "verbs-contract": examples / "verbs-contract", "contract": examples / "contract"}
        for program in self._programs.values():
            if not program.is_file():
                raise HarnessError(f"there is no {program}: build it with `{REMEDY}`")

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "PEER_ADDRESS": GUEST_ADDRESS, "NVME_ADDRESS": GUEST_ADDRESS, "ISCSI_PORT": str(ISCSI_PORT)}

    def start(self) -> None:
        """The guest has everything: nothing is started here."""

    def files(self) -> dict[str, Path]:
        files: dict[str, Path] = {}
        for name, program in self._programs.items():
            files |= with_libraries(name, program, self.folder)
        return files | self._howto()

    def _howto(self) -> dict[str, Path]:
        """What docs/howto/rdma.md has for adapters, at the guest's address: the command that serves, the configuration with the
        command that checks it, and those that use what is served."""
        section = HOWTO.read_text().split("\n## With an adapter\n")[1].split("\n## ")[0]
        blocks = re.findall(r"^```(\w+)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
        told = [("howto-serve.sh", "sh"), ("serve.toml", "toml"), ("howto-check.sh", "sh"), ("howto-use.sh", "sh")]
        found = [(kind, text) for kind, text in blocks if kind != "text"]
        if [kind for kind, _ in found] != [kind for _, kind in told]:
            raise HarnessError(f"{HOWTO} has other blocks for adapters than {told}: see what is to run")
        files = {}
        for (name, _), (_, text) in zip(told, found, strict=True):
            files[name] = self.folder / name
            files[name].write_text(text.replace(HOWTO_ADDRESS, GUEST_ADDRESS))
        return files
