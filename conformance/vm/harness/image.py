"""The guest's image: Debian packages in, a bare kernel and an initramfs out, cached by what went in.

A bare ELF kernel spares the guest from decompressing itself under emulation, and an uncompressed initramfs the same once more: together
they are most of the difference between a boot of half a minute and one of a few seconds.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import lzma
import re
import shutil
import struct
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import siw
from .packages import Package, PackageIndex
from .process import HarnessError, command, output

GUEST = Path(__file__).parent.parent / "guest"
LIBRARIES = "usr/lib/x86_64-linux-gnu"


@dataclass(frozen=True)
class Image:
    """What QEMU boots."""

    release: str
    """The kernel's release, as `uname -r` prints it in the guest."""
    kernel: Path
    initramfs: Path


@dataclass(frozen=True)
class Selection:
    """The packages chosen for one kernel series. Kept in the cache, so that a warm run asks no mirror for anything."""

    kernel: Package
    tools: tuple[Package, ...]
    siw: tuple[Package, ...]
    """What siw is built from."""

    @classmethod
    def choose(cls, index: PackageIndex, series: str, packages: list[str]) -> Selection:
        """Chooses the newest packages there are."""
        index.update()
        kernel = index.newest_kernel(series)
        return cls(kernel, tuple(index.candidates(index.with_libraries(packages))), tuple(siw.packages(index, kernel, series)))

    @classmethod
    def load(cls, path: Path) -> Selection:
        """Reads what `save` wrote."""
        record = json.loads(path.read_text())
        tools, sources = (tuple(Package(**package) for package in record[name]) for name in ("tools", "siw"))
        return cls(Package(**record["kernel"]), tools, sources)

    def save(self, path: Path) -> None:
        """Remembers the choice."""
        path.write_text(json.dumps(asdict(self), indent=1))


def prepare(cache: Path, series: str, *, refresh: bool = False) -> Image:
    """The image for a kernel series, from the cache if it is there. `refresh` looks for newer packages."""
    cache.mkdir(parents=True, exist_ok=True)
    recipe = (GUEST / "image.toml").read_bytes()
    contents = tomllib.loads(recipe.decode())
    with exclusive(cache):
        index = PackageIndex(cache / "apt")
        choice = cache / f"packages-{series}-{digest(recipe)}.json"
        if refresh or not choice.exists():
            print(f"# choosing packages for {series}", flush=True)
            Selection.choose(index, series, contents["packages"]).save(choice)
        selection = Selection.load(choice)
        release = selection.kernel.name.removeprefix("linux-image-")
        modules = cache / f"siw-{release}-{digest(repr(selection.siw).encode(), Path(siw.__file__).read_bytes())}"
        if not modules.exists():
            print(f"# building siw for {release}", flush=True)
            siw.build(index, selection.siw, modules)
        key = digest(recipe, choice.read_bytes(), Path(__file__).read_bytes(), modules.name.encode())
        folder = cache / f"image-{release}-{key}"
        if not folder.exists():
            print(f"# building the image of {release}", flush=True)
            with tempfile.TemporaryDirectory(dir=cache, prefix="building-") as scratch:
                builder = Builder(index, Path(scratch), release, contents)
                builder.build(selection, modules).rename(folder)
    return Image(release, folder / "vmlinux", folder / "initramfs")


@contextmanager
def exclusive(cache: Path) -> Iterator[None]:
    """Two runs do not build the same image at the same time; the second waits and then finds it."""
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def digest(*parts: bytes) -> str:
    """A short name for these bytes."""
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]


def pack(tree: Path, archive: Path) -> None:
    """Writes a folder as an uncompressed initramfs. The kernel unpacks several that stand behind each other."""
    names = sorted(str(path.relative_to(tree)) for path in tree.rglob("*"))
    options = ["--quiet", "--create", "--format=newc", "--owner=+0:+0", f"--file={archive}"]
    command(["cpio", *options], cwd=tree, stdin="\n".join(names).encode())


class Builder:
    """Builds one image in a scratch folder, step by step."""

    def __init__(self, index: PackageIndex, scratch: Path, release: str, contents: dict[str, Any]) -> None:
        self._index = index
        self._release = release
        self._contents = contents
        self._kernel = scratch / "kernel"
        self._tools = scratch / "tools"
        self._tree = scratch / "tree"
        self._image = scratch / "image"

    def build(self, selection: Selection, more_modules: Path) -> Path:
        """Returns the folder with the finished image. `more_modules` are kernel modules that are in no package."""
        self._index.unpack([selection.kernel], self._kernel)
        shutil.copytree(more_modules, self._kernel / "lib/modules" / self._release / "updates")
        self._index.unpack(selection.tools, self._tools)
        self._skeleton()
        self._programs()
        self._modules()
        self._image.mkdir()
        pack(self._tree, self._image / "initramfs")
        (self._image / "vmlinux").write_bytes(bare_kernel(self._kernel / "boot" / f"vmlinuz-{self._release}"))
        return self._image

    def _skeleton(self) -> None:
        """The empty folders, and the few files without which a C library or open-iscsi does not start."""
        for name in ("usr/bin", LIBRARIES, "usr/lib64", "dev", "etc/iscsi", "etc/nvme", "mnt", "proc", "root", "run", "sys", "tmp"):
            (self._tree / name).mkdir(parents=True)
        for name, target in {"bin": "bin", "sbin": "bin", "usr/sbin": "bin", "lib": "lib", "lib64": "lib64"}.items():
            (self._tree / name).symlink_to(target if "/" in name else f"usr/{target}")
        (self._tree / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/bash\n")
        (self._tree / "etc/group").write_text("root:x:0:\n")
        shutil.copy(self._tools / "etc/iscsi/iscsid.conf", self._tree / "etc/iscsi/iscsid.conf")

    def _programs(self) -> None:
        """The programs, the libraries they load, and a link for every busybox applet that is not a program already."""
        binaries = self._tree / "usr/bin"
        for name in [*self._contents["programs"], "busybox"]:
            self._copy(self._find(name), binaries / name)
        for name in self._contents["plugins"]:
            (self._tree / name).parent.mkdir(parents=True, exist_ok=True)
            self._copy(self._tools / name, self._tree / name)
        shutil.copy(self._tools / "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", self._tree / "usr/lib64")
        for program, names in self._contents["links"].items():
            for name in names:
                (binaries / name).symlink_to(program)
        for applet in command([binaries / "busybox", "--list"]).split():
            if not (binaries / applet).exists():
                (binaries / applet).symlink_to("busybox")

    def _copy(self, source: Path, place: Path) -> None:
        """A program or a plugin, with the libraries that it loads."""
        shutil.copy(source, place)
        for library in self._libraries(source):
            shutil.copy(library, self._tree / LIBRARIES / library.name)

    def _find(self, name: str) -> Path:
        """A program among the unpacked packages."""
        for folder in ("usr/sbin", "usr/bin", "sbin", "bin"):
            if (path := self._tools / folder / name).is_file():
                return path
        raise HarnessError(f"none of the packages in guest/image.toml has the program {name}")

    def _libraries(self, program: Path) -> list[Path]:
        """What a program loads, resolved by the packages' own loader among the packages' own libraries."""
        folders = [self._tools / name for name in ("lib/x86_64-linux-gnu", LIBRARIES, f"{LIBRARIES}/ceph", "lib")]
        loader = folders[0] / "ld-linux-x86-64.so.2"
        if b"ld-linux" not in program.read_bytes()[:4096]:
            return []
        listing = command([loader, "--inhibit-cache", "--library-path", ":".join(map(str, folders)), "--list", program])
        found = dict(re.findall(r"^\t(\S+) => (.*?)(?: \(0x\w+\))?$", listing, re.MULTILINE))
        if missing := [name for name, path in found.items() if not path.startswith(str(self._tools))]:
            raise HarnessError(f"{program.name} needs {', '.join(missing)}, which no package in guest/image.toml brings")
        return [Path(path) for path in found.values()]

    def _modules(self) -> None:
        """The kernel modules wanted and those that they need, decompressed."""
        source, target = (root / "lib/modules" / self._release for root in (self._kernel, self._tree))
        command(["depmod", "-b", self._kernel, self._release])
        wanted = [name for group in self._contents["modules"].values() for name in group]
        for packed in sorted({path for module in wanted for path in self._closure(module)}):
            module = target / packed.relative_to(source)
            module.parent.mkdir(parents=True, exist_ok=True)
            if module.suffix == ".xz":
                module.with_suffix("").write_bytes(lzma.decompress(packed.read_bytes()))
            else:
                shutil.copy(packed, module)
        for name in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
            shutil.copy(source / name, target / name)
        command(["depmod", "-b", self._tree, self._release])

    def _closure(self, module: str) -> list[Path]:
        """The files that loading a module loads; none if it is built in, or if this kernel does not have it."""
        where = [f"--dirname={self._kernel}", f"--set-version={self._release}"]
        try:
            listing = command(["modprobe", *where, "--show-depends", "--ignore-install", module])
        except HarnessError:
            return []
        return [Path(path) for path in re.findall(r"^insmod (\S+)", listing, re.MULTILINE)]


def bare_kernel(boot_image: Path) -> bytes:
    """The ELF kernel inside a bzImage (Linux x86 boot protocol 2.08, `payload_offset` and `payload_length`)."""
    image = boot_image.read_bytes()
    setup_sectors = image[0x1F1]
    offset, length = struct.unpack_from("<II", image, 0x248)
    payload = image[(setup_sectors + 1) * 512 + offset :][: length - 4]
    decompressors = {b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"\x1f\x8b": "gzip"}
    for magic, program in decompressors.items():
        if payload.startswith(magic):
            return output([program, "--decompress", "--stdout"], stdin=payload)
    raise HarnessError(f"{boot_image.name} is compressed in an unknown way ({payload[:6].hex()})")
