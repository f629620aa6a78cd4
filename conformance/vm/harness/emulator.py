"""QEMU of another Debian release, beside the machine's own: unpacked into the cache, and run with the libraries that it was built for.

Nothing is installed. What comes out is a folder of programs of QEMU's names, to be put in front of PATH.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from .image import LIBRARIES, digest, exclusive
from .packages import Package, PackageIndex
from .process import HarnessError

RELEASES = ("trixie",)
"""Those that are newer than the reference platform."""

PACKAGES = ("qemu-system-x86", "qemu-system-common", "qemu-system-data", "qemu-utils", "seabios")
PROGRAMS = ("qemu-system-x86_64", "qemu-storage-daemon", "qemu-img", "qemu-io")

FIRMWARE = ("usr/share/qemu", "usr/share/seabios")
"""Where QEMU finds what it boots a guest with."""

WRAPPER = """\
#!/bin/sh
# {name} of Debian {release}, with its own libraries.
export QEMU_MODULE_DIR="{root}/{libraries}/qemu"
exec "{loader}" --library-path "{root}/{libraries}:{root}/{libraries}/pulseaudio" --argv0 "$0" "{root}/usr/bin/{name}" {firmware}"$@"
"""


def prepare(cache: Path, release: str, *, refresh: bool = False) -> Path:
    """The folder with the programs, from the cache if it is there."""
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / f"qemu-{release}-{digest(Path(__file__).read_bytes())}"
    with exclusive(cache):
        if refresh:
            shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            index = PackageIndex(cache / f"apt-{release}", release)
            index.update()
            packages = index.candidates(index.with_libraries(PACKAGES))
            with tempfile.TemporaryDirectory(dir=cache, prefix="building-") as scratch:
                built = Path(scratch) / "qemu"
                unpack(index, packages, built / "root")
                # Its programs name the folder where it will be.
                wrap(built, folder, release)
                built.rename(folder)
    return folder / "bin"


def unpack(index: PackageIndex, packages: list[Package], root: Path) -> None:
    """The files of the packages, as they are installed where `/lib` is `/usr/lib`."""
    for name in ("lib", "lib64", "bin"):
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(f"usr/{name}")
    index.unpack(packages, root)


def wrap(built: Path, folder: Path, release: str) -> None:
    """A program of each name, which runs what lies in the root."""
    loader = built / "root" / LIBRARIES / "ld-linux-x86-64.so.2"
    if not loader.exists():
        raise HarnessError(f"Debian {release} has no loader at {LIBRARIES}: where has it gone?")
    (built / "bin").mkdir()
    root = folder / "root"
    for name in PROGRAMS:
        if not (built / "root/usr/bin" / name).exists():
            raise HarnessError(f"Debian {release} has no {name} in {', '.join(PACKAGES)}: which package has it now?")
        firmware = "".join(f'-L "{root / place}" ' for place in FIRMWARE) if name.startswith("qemu-system-") else ""
        words = {"name": name, "release": release, "root": root, "libraries": LIBRARIES, "firmware": firmware}
        program = built / "bin" / name
        program.write_text(WRAPPER.format(**words, loader=root / LIBRARIES / loader.name))
        program.chmod(0o755)
