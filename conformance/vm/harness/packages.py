"""Debian packages: which versions there are, and their files unpacked into the cache. Nothing is installed.

apt does the work, with sources, lists and archives of its own in the cache: the machine's apt state is neither needed nor touched, and
its archives are not ours to clean. The mirror is the one that the machine itself uses, read at run time, so that no host name is written
down here and a machine behind a mirror of its own works.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from .process import HarnessError, command

RELEASE = "bookworm"
"""The Debian release that guest and kernels come from, whatever the machine itself runs."""

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


@dataclass(frozen=True, order=True)
class Package:
    """One binary package in one version."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name}={self.version}"


class PackageIndex:
    """apt's view of the release, its security archive and its backports, kept under one folder."""

    def __init__(self, folder: Path, release: str = RELEASE) -> None:
        self._folder = folder
        self._release = release
        for name in ("archives", "lists"):
            (folder / name / "partial").mkdir(parents=True, exist_ok=True)
        options = {
            "APT::Architecture": "amd64",
            "APT::Sandbox::User": "root",
            "Acquire::Languages": "none",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
            "Dir::Cache": folder,
            "Dir::Cache::Archives": folder / "archives",
            "Dir::Cache::pkgcache": "packages.bin",
            "Dir::Cache::srcpkgcache": "sources.bin",
            "Dir::Etc::SourceList": folder / "sources.list",
            "Dir::Etc::SourceParts": "-",
            "Dir::State::Lists": folder / "lists",
            "Dir::State::Status": "/dev/null",
        }
        self._options = [argument for key, value in options.items() for argument in ("-o", f"{key}={value}")]

    def update(self) -> None:
        """Fetches the package lists."""
        (self._folder / "sources.list").write_text("\n".join(debian_sources(self._release)) + "\n")
        command(["apt-get", *self._options, "-o", "APT::Update::Error-Mode=any", "update"])

    def newest_kernel(self, series: str) -> Package:
        """The newest full (not cloud, not real-time) kernel image of a series such as "6.12"."""
        names = command(["apt-cache", *self._options, "pkgnames", f"linux-image-{series}."]).split()
        kernels = [name for name in names if re.fullmatch(r"linux-image-[\d.]+([+]deb[\d.]+|-\d+)-amd64", name)]
        if not kernels:
            raise HarnessError(f"no linux-image-{series}.*-amd64 in {self._release}, its security archive or its backports: has the series left Debian?")
        newest = max(kernels, key=lambda name: [int(number) for number in re.findall(r"\d+", name)])
        return self.candidates([newest])[0]

    def candidates(self, names: Iterable[str]) -> list[Package]:
        """Each package in the version that apt would install."""
        wanted = sorted(set(names))
        policy = command(["apt-cache", *self._options, "policy", *wanted])
        found = dict(re.findall(r"^(\S+):\n  Installed: .*\n  Candidate: (\S+)$", policy, re.MULTILINE))
        missing = [name for name in wanted if found.get(name, "(none)") == "(none)"]
        if missing:
            raise HarnessError(f"not in the package index: {', '.join(missing)}")
        return [Package(name, found[name]) for name in wanted]

    def with_libraries(self, names: Iterable[str]) -> set[str]:
        """The packages and, transitively, every library package (`lib…`, `zlib…`) that they depend on."""
        closure: set[str] = set()
        fresh = set(names)
        while fresh:
            closure |= fresh
            depends = command(["apt-cache", *self._options, "depends", "--important", *sorted(fresh)])
            fresh = set(re.findall(r"^ [ |](?:Pre)?Depends: (z?lib\S+|gcc-\S+-base)$", depends, re.MULTILINE)) - closure
        return closure

    def needs(self, name: str, pattern: str) -> list[str]:
        """What a package depends on directly and the pattern describes."""
        depends = command(["apt-cache", *self._options, "depends", "--important", name])
        return re.findall(rf"^ [ |](?:Pre)?Depends: ({pattern})$", depends, re.MULTILINE)

    def unpack(self, packages: Iterable[Package], root: Path) -> None:
        """Downloads packages and unpacks their files below `root`."""
        with TemporaryDirectory(dir=self._folder) as downloads:
            command(["apt-get", *self._options, "download", *map(str, packages)], cwd=Path(downloads))
            for archive in sorted(Path(downloads).glob("*.deb")):
                command(["dpkg", "--extract", archive, root])


def debian_sources(release: str) -> list[str]:
    """Source entries for a release, on the mirrors that the machine's own apt uses."""
    listing = command(["apt-get", "indextargets", "--format", "$(LABEL) $(REPO_URI)", "ORIGIN: Debian"])
    mirrors = dict(line.split(" ", 1) for line in listing.splitlines())
    if "Debian" not in mirrors:
        raise HarnessError("apt knows no Debian mirror: run `apt-get update` first, or check /etc/apt/sources.list*")
    signed = f"[signed-by={KEYRING}] " if KEYRING.exists() else ""
    suites = [(mirrors["Debian"], release), (mirrors["Debian"], f"{release}-backports")]
    if "Debian-Security" in mirrors:
        suites.append((mirrors["Debian-Security"], f"{release}-security"))
    return [f"deb {signed}{mirror} {suite} main" for mirror, suite in suites]
