"""A network of one run's own: a namespace with a bridge, where the server listens, and a tap, where the guest is plugged in.

Nothing of it is visible outside the namespace, so addresses and ports can be fixed, runs can go in parallel, and no firewall of the
machine is in the way. The namespace has the run's name and goes when the run ends.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from .process import HarnessError, command

BRIDGE = "br0"
TAP = "tap0"
SERVER_ADDRESS = "192.168.77.1"
GUEST_ADDRESS = "192.168.77.2"
PREFIX_LENGTH = 24


def require_root() -> None:
    """Refuses to go on as an ordinary user, before much time is spent."""
    if os.geteuid() != 0:
        raise HarnessError("a network namespace with a tap needs root: run this with sudo, or in a privileged container")


class Network:
    """The namespace. As a context manager it exists inside the block."""

    def __init__(self) -> None:
        self.name = f"linerate-vm-{os.getpid()}-{secrets.token_hex(2)}"

    def inside(self, argv: Sequence[str | Path]) -> list[str | Path]:
        """The command line that runs another one inside."""
        return ["ip", "netns", "exec", self.name, *argv]

    def __enter__(self) -> Self:
        command(["ip", "netns", "add", self.name])
        try:
            self._wire()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._remove()

    def _wire(self) -> None:
        """Bridge and tap, up and without the delays of a spanning tree."""
        for step in (
            "link set lo up",
            f"link add {BRIDGE} type bridge stp_state 0 forward_delay 0",
            f"addr add {SERVER_ADDRESS}/{PREFIX_LENGTH} dev {BRIDGE}",
            f"tuntap add dev {TAP} mode tap",
            f"link set {TAP} master {BRIDGE} up",
            f"link set {BRIDGE} up",
        ):
            command(["ip", "-netns", self.name, *step.split()])

    def _remove(self) -> None:
        command(["ip", "netns", "delete", self.name])
