"""The kernel's own NFS server, nfsd, as the peer of Linerate's `nfs://` volumes: the guest serves files on ext4 and tmpfs, and the clients run beside it.

The volume contract's suite by both versions, copies whose sums the guest takes, a server that is stopped and started under load, and what users read when something is wrong.
"""

from __future__ import annotations

import hashlib
import secrets
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .guest import Guest
from .network import GUEST_ADDRESS, SERVER_ADDRESS
from .nfs import PORT
from .peers import SIZE, SUITE_SECONDS, WELL_BEGUN, Peers
from .process import Child, HarnessError

VERSIONS = ("4.2", "4.1")
PATIENT = "reconnect=120s&timeout=60s"
"""For what goes on over a restart: the server takes no new open until its grace is over, which is 10 s of the guest's."""
MOVES_DATA = "6.1."
"""Kernels whose nfsd, on tmpfs alone, answers a READ that begins within a page of a hole and goes on into data with the data at a wrong place, whoever asks: a page of zeros is
spliced in from its begin, and the page behind it follows where the first one should have ended. The guest's own client is answered so, too. READs of whole pages are right."""
BLOCK = 512
"""What the guest counts occupied space in."""
BENCH_SECONDS = 20


@dataclass(frozen=True)
class File:
    """A file of the guest's, as a client reaches it."""

    path: str
    options: str = ""
    """Of its URL."""

    @property
    def url(self) -> str:
        """For Linerate's clients."""
        return f"nfs://{GUEST_ADDRESS}:{PORT}/{self.path}" + (f"?{self.options}" if self.options else "")


class NfsPeer(Peers):
    """nfsd in the guest, and the programs that use it."""

    script_seconds = 1500.0

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "NFS_PORT": str(PORT), "SERVER_ADDRESS": SERVER_ADDRESS}

    def tests(self, guest: Guest, child: Child, script: str) -> Iterator[tuple[str, Callable[[], None]]]:
        def order(words: str) -> None:
            guest.order(child, words)

        for version in VERSIONS:
            yield f"contract-ext4-{version}", lambda version=version: self._contract_of(File("ext4/disk.img", f"version={version}"))
        whole_pages = guest.image.release.startswith(MOVES_DATA)
        yield "contract-tmpfs", lambda: self._contract_of(File("tmpfs/disk.img", "block=4096" if whole_pages else ""))
        yield "contract-block-4096", lambda: self._contract_of(File("ext4/disk.img", "block=4096"))
        for version in VERSIONS:
            yield f"copies-{version}", lambda version=version: self._copies(order, File("ext4/disk.img", f"version={version}"))
        yield "copies-tmpfs", lambda: self._copies(order, File("tmpfs/disk.img"))
        for version in VERSIONS:
            file = File("ext4/disk.img", f"version={version}&{PATIENT}")
            yield f"restart-reading-{version}", lambda file=file: self._read_through(file, lambda: order("restart"))
            yield f"restart-writing-{version}", lambda file=file: self._write_through(order, file)
        yield "without-4.2", lambda: self._falls_back(order)
        yield "read-only", self._read_only
        yield "exclusive", lambda: self._exclusive(order)
        yield "wrong", self._wrong

    def _contract_of(self, file: File) -> None:
        """The volume contract's suite."""
        self._run([self._suite, file.url])

    def _source(self) -> tuple[str, str]:
        """A file of bytes that repeat nowhere, and its sum."""
        content = secrets.token_bytes(SIZE)
        path = self.folder / "source.raw"
        path.write_bytes(content)
        return f"file:{path}", hashlib.sha256(content).hexdigest()

    def _copies(self, order: Callable[[str], None], file: File) -> None:
        """There, back, and zeroed; the guest has to hold the same."""
        source, total = self._source()
        back = self.folder / "back.raw"
        back.unlink(missing_ok=True)
        self._run([self._linerate, "copy", source, file.url, "--overwrite"])
        order(f"holds {file.path} {total}")
        self._run([self._linerate, "copy", file.url, f"file:{back}"])
        if hashlib.sha256(back.read_bytes()).hexdigest() != total:
            raise HarnessError("what was copied back is not what was copied")
        self._run([self._linerate, "zero", "--overwrite", file.url])
        order(f"holds {file.path} {hashlib.sha256(bytes(SIZE)).hexdigest()}")

    def _write_through(self, order: Callable[[str], None], file: File) -> None:
        """nfsd is stopped and started while it is written to. Its write verifier is another one then, so that the copy's flush has to fail, as nobody can say whether what was acknowledged and not
        flushed is there; a copy that begins behind that arrives."""
        source, total = self._source()
        # By 4.1 zeros are written, so that space would tell nothing of the copy.
        order(f"empty {file.path}")
        copy = self.network.inside([self._linerate, "copy", f"limit=4M/s+{source}", file.url, "--overwrite"])
        said = self.folder / "writing.log"
        with said.open("wb") as log, Child(copy, stdout=subprocess.DEVNULL, stderr=log.fileno()) as writing:
            order(f"begun {file.path} {WELL_BEGUN // BLOCK}")
            order("restart")
            code = writing.wait(SUITE_SECONDS)
        if code != 1 or "flush" not in said.read_text():
            raise HarnessError(f"the copy ended with {code}:\n{said.read_text()}")
        self._run([self._linerate, "copy", source, file.url, "--overwrite"])
        order(f"holds {file.path} {total}")

    def _falls_back(self, order: Callable[[str], None]) -> None:
        """A server without 4.2 is spoken to by 4.1, unless the URL says otherwise."""
        order("versions 1")
        try:
            code, said = self._says([self._linerate, "inspect", File("ext4/disk.img", PATIENT).url])
            if code != 0 or "4.1" not in said:
                raise HarnessError(f"it ends with {code}, or does not say 4.1:\n{said}")
            self._refused(File("ext4/disk.img", "version=4.2"), "MINOR_VERS_MISMATCH")
        finally:
            order("versions 1 2")
        self._run([self._linerate, "inspect", File("ext4/disk.img", f"version=4.2&{PATIENT}").url])

    def _read_only(self) -> None:
        """An export that can only be read."""
        self._refused(File("readonly/disk.img"), "readonly+")
        self._run([self._linerate, "inspect", "readonly+" + File("readonly/disk.img").url])

    def _exclusive(self, order: Callable[[str], None]) -> None:
        """Who opens a file exclusively keeps others from opening it for writing. nfsd tells when that is so: another client that has the file open just then would keep the first one from it."""
        held = File("ext4/disk.img", "exclusive=1").url
        bench = self.network.inside([self._linerate, "bench", held, "--rw", "randread", "--runtime", str(BENCH_SECONDS), "--json"])
        said = self.folder / "exclusive.log"
        with said.open("wb") as log, Child(bench, stdout=subprocess.DEVNULL, stderr=log.fileno()) as reading:
            try:
                order("denied")
            except HarnessError as error:
                raise HarnessError(f"nobody is denied; who opens it exclusively: {reading.exit_code()}:\n{said.read_text()}") from error
            self._refused(File("ext4/disk.img"), "SHARE_DENIED")
            self._run([self._linerate, "inspect", "readonly+" + File("ext4/disk.img").url])
            if (code := reading.wait(SUITE_SECONDS)) != 0:
                raise HarnessError(f"who had opened it exclusively ended with {code}:\n{said.read_text()}")
        self._run([self._linerate, "inspect", File("ext4/disk.img").url])

    def _wrong(self) -> None:
        """What users read."""
        for file, word in (
            (File("ext4/none.img"), "NFS4ERR_NOENT"),
            (File("nowhere/disk.img"), "NFS4ERR_NOENT"),
            (File("ext4"), "directory"),
            (File("ext4/link.img"), "symbolic link"),
            (File("ext4/odd.img"), "whole number"),
            (File("ext4/other.img", "uid=4711&gid=4711"), "uid="),
        ):
            self._refused(file, word)

    def _refused(self, file: File, word: str) -> None:
        """A volume that cannot be opened, and says why."""
        code, said = self._says([self._linerate, "inspect", file.url])
        if code != 1 or word not in said:
            raise HarnessError(f"{file.url} ends with {code} and says: {said}")
