"""What a server takes of its machine, from outside: what is left of it when its peers have gone is a leak."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

ESTABLISHED = "01"
LISTENS = "0A"
"""States of TCP's sockets in `/proc/net/tcp`."""
KERNEL_WORKER = "iou-wrk-"
"""How the threads are called that the kernel makes for requests of io_uring that wait; it keeps one for each ring until the process ends."""


@dataclass(frozen=True)
class Footprint:
    """Numbers of one process, and of the network that it is in."""

    descriptors: int
    threads: int
    """Threads of its own; those that the kernel adds for io_uring are not the process's to end."""
    connections: int
    """TCP connections that are established at the ports that somebody listens on, in the process's network namespace."""
    memory: int
    """Resident KiB."""

    @classmethod
    def of(cls, process: int) -> Self:
        """That of a process, now."""
        folder = Path(f"/proc/{process}")
        status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
        descriptors = len(list((folder / "fd").iterdir()))
        tables = "".join((folder / "net" / name).read_text() for name in ("tcp", "tcp6"))
        return cls(descriptors, own_threads(folder / "task"), established(tables), int(status["VmRSS"].split()[0]))

    def beyond(self, before: Footprint, memory: int) -> str | None:
        """What there is more of than before; of memory, so many KiB more are no leak."""
        more = [
            f"{now} {name} instead of {was}"
            for name, now, was, spare in (
                ("descriptors", self.descriptors, before.descriptors, 0),
                ("threads", self.threads, before.threads, 0),
                ("connections", self.connections, before.connections, 0),
                ("KiB of memory", self.memory, before.memory, memory),
            )
            if now > was + spare
        ]
        return ", ".join(more) or None


def own_threads(tasks: Path) -> int:
    """How many threads of a process's folder of tasks are its own."""
    return sum(not name_of(task).startswith(KERNEL_WORKER) for task in tasks.iterdir())


def name_of(task: Path) -> str:
    """A thread's name. One that ended meanwhile is counted once more: whoever waits looks again."""
    try:
        return (task / "comm").read_text()
    except OSError:
        return ""


def established(table: str) -> int:
    """How many connections of `/proc/net/tcp`'s table are established at a port that is listened on."""
    rows = [line.split() for line in table.splitlines() if ":" in line.split()[0]]
    ports = {row[1].rsplit(":", 1)[1] for row in rows if row[3] == LISTENS}
    return sum(row[3] == ESTABLISHED and row[1].rsplit(":", 1)[1] in ports for row in rows)
