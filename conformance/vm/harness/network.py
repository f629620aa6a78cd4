"""A network of one run's own: a namespace with a bridge, where the server listens, and a tap, where the guest is plugged in; or two of each.

Nothing of it is visible outside the namespace, so addresses and ports can be fixed, runs can go in parallel, and no firewall of the
machine is in the way. The namespace has the run's name and goes when the run ends.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from .process import HarnessError, command

SERVER_ADDRESS = "192.168.77.1"
GUEST_ADDRESS = "192.168.77.2"
SECOND_SERVER_ADDRESS = "192.168.78.1"
SECOND_GUEST_ADDRESS = "192.168.78.2"
"""On the second link, if a run has one."""
SERVER_ADDRESSES = (SERVER_ADDRESS, SECOND_SERVER_ADDRESS)
PREFIX_LENGTH = 24


def require_root() -> None:
    """Refuses to go on as an ordinary user, before much time is spent."""
    if os.geteuid() != 0:
        raise HarnessError("a network namespace with a tap needs root: run this with sudo, or in a privileged container")


class Network:
    """The namespace. As a context manager it exists inside the block."""

    def __init__(self, links: int = 1) -> None:
        self.links = links
        self.name = f"linerate-vm-{os.getpid()}-{secrets.token_hex(2)}"

    def inside(self, argv: Sequence[str | Path]) -> list[str | Path]:
        """The command line that runs another one inside."""
        return ["ip", "netns", "exec", self.name, *argv]

    def cut(self, links: Sequence[int], seconds: float) -> None:
        """Unplugs these links of the guest's for a while."""
        for state in ("down", "up"):
            for link in links:
                command(["ip", "-netns", self.name, "link", "set", tap(link), state])
            if state == "down":
                time.sleep(seconds)

    def lose(self, percent: int) -> None:
        """Loses so many packets of a hundred, at random, on the way to the server and on the way from it. Zero ends that."""
        chains = [f"chain {hook} {{\ntype filter hook {hook} priority 0\nnumgen random mod 100 < {percent} drop\n}}" for hook in ("input", "output") if percent]
        command(self.inside(["nft", "\n".join(["table ip loss", "delete table ip loss", "table ip loss {", *chains, "}"])]))

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
        """A bridge and a tap for each link, up and without the delays of a spanning tree."""
        steps = ["link set lo up"]
        for link, address in enumerate(SERVER_ADDRESSES[: self.links]):
            steps += [
                f"link add br{link} type bridge stp_state 0 forward_delay 0",
                f"addr add {address}/{PREFIX_LENGTH} dev br{link}",
                f"tuntap add dev {tap(link)} mode tap",
                f"link set {tap(link)} master br{link} up",
                f"link set br{link} up",
            ]
        for step in steps:
            command(["ip", "-netns", self.name, *step.split()])

    def _remove(self) -> None:
        command(["ip", "netns", "delete", self.name])


def tap(link: int) -> str:
    """Where the guest is plugged in."""
    return f"tap{link}"
