"""Suites for file systems in the guest, on mounts of Linerate's folders: pjdfstest, fsx, dbench.

None of them is in the guest's image: pjdfstest and fsx are crates, which scripts/setup.sh installs into target/tools, and dbench is a Debian package of this machine's.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from .network import Network
from .nfs import Nfs
from .process import HarnessError
from .server import with_libraries

TOOLS = Path(__file__).resolve().parents[3] / "target" / "tools" / "bin"
LOAD = Path("/usr/share/dbench/client.txt")
LOAD_LINES = 60_000
"""Of the load, whose half million lines are more than the guest gets through in its time."""
REMEDY = "scripts/setup.sh full"


class Posix(Nfs):
    """The same server and shares, without the folders of many files, and the suites for the guest."""

    script_seconds = 3000.0
    entries = 0

    def __init__(self, network: Network, folder: Path, binary: Path) -> None:
        super().__init__(network, folder, binary)
        dbench = shutil.which("dbench")
        self._programs = {"pjdfstest": TOOLS / "pjdfstest", "fsx": TOOLS / "fsx", "dbench": Path(dbench or "dbench")}
        for program in (*self._programs.values(), LOAD):
            if not program.is_file():
                raise HarnessError(f"there is no {program}: `{REMEDY}` installs it")

    def files(self) -> dict[str, Path]:
        files: dict[str, Path] = {}
        for name, program in self._programs.items():
            files |= with_libraries(name, program, self.folder)
        files["client.txt"] = self.folder / "client.txt"
        with LOAD.open() as whole:
            files["client.txt"].write_text("".join(line for _, line in zip(range(LOAD_LINES), whole, strict=False)))
        return files
