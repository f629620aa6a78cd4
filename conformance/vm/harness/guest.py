"""One guest: QEMU under software emulation, with the kernel's console and the scripts' results on serial lines of their own.

Two lines, because one would mix the kernel's messages into the results. Time is taken from the machine's clock only: a guest's clock
under emulation on a busy machine says nothing.
"""

from __future__ import annotations

import re
import select
import shlex
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from .image import GUEST, Image, pack
from .network import GUEST_ADDRESS, PREFIX_LENGTH, SECOND_GUEST_ADDRESS, Network, tap
from .process import Child, HarnessError
from .server import MEMORY_MIB

EXIT_SECONDS = 5.0
"""How long the emulator may take to end after its guest's last line."""

ORDER_SECONDS = 120.0
"""How long the guest may take to do what it was told."""

PROCESSORS = 2
"""Two, so that the kernel's NVMe host sets up two I/O queues."""

KERNEL_ARGUMENTS = (
    "console=ttyS0 loglevel=5 panic=-1 nokaslr mitigations=off random.trust_cpu=on net.ifnames=0"
    # A busy machine stops an emulated processor for seconds: the kernel must not call that a lockup.
    " nowatchdog rcupdate.rcu_cpu_stall_suppress=1 no_timer_check"
)


KERNEL_DIED = re.compile(r"Kernel panic|Oops: |BUG: |general protection fault|double fault")
"""Lines of the console that say that the guest's kernel itself broke down. With `panic=-1` and `-no-reboot` QEMU then ends with 0."""

LAST_LINES = 12
"""How much of the console is told of a guest that was lost."""


class GuestTimeoutError(Exception):
    """The guest did not say anything more in its time."""


@dataclass(frozen=True)
class Loss:
    """How a guest ended that had more to do."""

    emulator: int | None
    """QEMU's exit code, negative for a signal; None while it runs."""
    said: tuple[str, ...]
    """What QEMU wrote on its standard error."""
    console: tuple[str, ...]
    """The last lines of the kernel's console."""
    oops: str | None
    """The line that says that the kernel broke down."""

    @property
    def foreign(self) -> bool:
        """Whether the kernel or the emulator broke down, rather than a script or what is tested."""
        return self.oops is not None or self.emulator not in (None, 0)

    def __str__(self) -> str:
        if self.oops is not None:
            why = f"its kernel broke down: {self.oops}"
        elif self.emulator is None:
            why = "the emulator still runs"
        elif self.emulator < 0:
            why = f"the emulator was ended by signal {-self.emulator}"
        else:
            why = f"the emulator ended with {self.emulator}"
        return why + "".join(f" ({line})" for line in self.said[-1:])


@dataclass
class Guest:
    """A guest that has been described, and can be booted; again only when it is gone."""

    image: Image
    network: Network
    folder: Path
    environment: dict[str, str]
    scripts: tuple[str, ...]
    devices: tuple[str, ...] = ()
    """More of QEMU's command line."""
    files: dict[str, Path] = field(default_factory=dict)
    """What of the machine's is in the guest's folder `/linerate/host`, by name."""
    _unread: bytes = field(default=b"", init=False)

    @property
    def console(self) -> Path:
        """Where the kernel's console goes."""
        return self.folder / "console.log"

    @property
    def _emulator_log(self) -> Path:
        """Where QEMU's own complaints go."""
        return self.folder / "qemu.log"

    def boot(self) -> Child:
        """Starts QEMU with the scripts' line on its standard output."""
        self._unread = b""
        serial = ["-serial", f"file:{self.console}", "-serial", "stdio"]
        with self._emulator_log.open("wb") as log:
            return Child(self._command(serial, ""), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log.fileno())

    def loss(self, child: Child) -> Loss:
        """What is to be told of a guest that ended too early."""
        code = child.wait(EXIT_SECONDS)
        console = self.console.read_text(errors="replace").splitlines() if self.console.exists() else []
        said = self._emulator_log.read_text(errors="replace").splitlines()
        oops = next((line.strip() for line in console if KERNEL_DIED.search(line)), None)
        return Loss(code, tuple(said), tuple(console[-LAST_LINES:]), oops)

    def order(self, child: Child, order: str) -> None:
        """Says a line to the guest's script, and waits until it says that this is done; `stop` is not waited for."""
        try:
            child.write(f"{order}\n".encode())
        except BrokenPipeError as gone:
            raise HarnessError(f"the guest ended before it could be told `{order}`") from gone
        deadline = time.monotonic() + ORDER_SECONDS
        said = None
        while order != "stop" and not (said or "").startswith("# done"):
            said = self.read_line(child, deadline)
            if said is None:
                raise HarnessError(f"the guest ended before it had done `{order}`")
        if said is not None and not said.endswith(" 0"):
            raise HarnessError(f"the guest could not do `{order}`: {said}")

    def shell(self) -> None:
        """Boots the guest with its console on this terminal, and a shell instead of the scripts' run."""
        subprocess.run(self._command(["-serial", "mon:stdio", "-serial", "null"], " linerate.shell"), check=False)

    def read_line(self, child: Child, deadline: float) -> str | None:
        """The next line of the scripts, or None at their end. Raises when the deadline (monotonic clock) passes first."""
        while b"\n" not in self._unread:
            patience = deadline - time.monotonic()
            if patience <= 0:
                raise GuestTimeoutError
            if select.select([child.descriptor], [], [], patience)[0]:
                chunk = child.read()
                if not chunk:
                    return None
                self._unread += chunk
        line, self._unread = self._unread.split(b"\n", 1)
        return line.decode(errors="replace").rstrip("\r")

    def _command(self, serial: list[str], arguments: str) -> list[str | Path]:
        """QEMU's command line."""
        machine = ["-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", str(PROCESSORS), "-m", str(MEMORY_MIB)]
        plain = ["-nodefaults", "-display", "none", "-no-reboot", "-device", "virtio-rng-pci"]
        net = []
        for link in range(self.network.links):
            net += ["-netdev", f"tap,id=net{link},ifname={tap(link)},script=no,downscript=no", "-device", f"virtio-net-pci,netdev=net{link},romfile="]
        kernel = ["-kernel", str(self.image.kernel), "-initrd", str(self._initramfs()), "-append", KERNEL_ARGUMENTS + arguments]
        return self.network.inside(["qemu-system-x86_64", *machine, *plain, *serial, *net, *self.devices, *kernel])

    def _initramfs(self) -> Path:
        """The image with this run's scripts and environment behind it."""
        tree, added, whole = self.folder / "guest", self.folder / "guest.cpio", self.folder / "initramfs"
        if whole.exists():
            return whole
        shutil.copytree(GUEST, tree / "linerate")
        shutil.move(tree / "linerate" / "init", tree / "init")
        (tree / "linerate" / "host").mkdir()
        for name, source in self.files.items():
            shutil.copy(source, tree / "linerate" / "host" / name)
        environment = {
            "GUEST_NETWORK": f"{GUEST_ADDRESS}/{PREFIX_LENGTH}",
            "SECOND_GUEST_NETWORK": f"{SECOND_GUEST_ADDRESS}/{PREFIX_LENGTH}" if self.network.links > 1 else "",
            "SCRIPTS": " ".join(self.scripts),
            **self.environment,
        }
        lines = [f"export {name}={shlex.quote(value)}\n" for name, value in environment.items()]
        (tree / "linerate" / "environment").write_text("".join(lines))
        pack(tree, added)
        with whole.open("wb") as out:
            for part in (self.image.initramfs, added):
                with part.open("rb") as source:
                    shutil.copyfileobj(source, out, 1 << 20)
        return whole
