"""What a guest says on its serial lines, read as test results.

The scripts' line carries, in the manner of TAP: `ok NAME` and `not ok NAME REASON`; `# begin SCRIPT` and `# end SCRIPT STATUS` around each
script; and anything else, which is the log of the next result. The kernel's own line carries its complaints. Silence is no success: a
script that has not ended, or that ended without a result, has failed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

KERNEL_FAULT = re.compile(
    r"Kernel panic|Oops:|BUG: |general protection fault|blocked for more than|WARNING: CPU|refcount_t:|list_(add|del) corruption"
    r"|EXT4-fs error|JBD2: .*error|XFS .*: (Corruption|Metadata|Log I/O|log I/O)|log-writes: "
)
"""Lines of the kernel's log that are a failure whatever the scripts say: faults of the kernel's own, and what file systems find."""

LOSS = re.compile(r"I/O error|detected conn error|timeout, reset controller|ping timeout|critical (?!nexus)\w+ error")
"""What the initiators complain of when they lose a session: a failure where nobody cuts one."""


WARNING_ENDS = "---[ end trace"
"""The last line of a warning of the kernel's, which its calls come before."""

KNOWN_WARNINGS = (
    # At a logout the initiator takes a SCSI target apart on a queue that must not wait for memory, and waits there for power management's, if its work happens
    # to be due, which may.
    ("check_flush_dependency", "pm_runtime_remove", "__iscsi_unbind_session"),
    # LIO's iSER cannot send a response, because the initiator has left, and releases a command that is still in its connection's list.
    ("iscsit_release_cmd", "ib_cq_poll_work"),
)
"""Calls that, all in one warning, are a fault of Linux' own and none of a peer's."""


@dataclass(frozen=True)
class Result:
    """One test result; it failed if it has a reason."""

    name: str
    reason: str | None = None
    log: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"ok {self.name}" if self.reason is None else f"not ok {self.name}: {self.reason}"


@dataclass
class Report:
    """The results of one boot, filled line by line."""

    expected: tuple[str, ...]
    """The scripts that the guest was told to run."""
    results: list[Result] = field(default_factory=list)
    running: str | None = None
    """The script between its begin and its end."""
    _ended: set[str] = field(default_factory=set)
    _log: list[str] = field(default_factory=list)

    def line(self, text: str) -> Result | None:
        """Takes one line of the scripts, and returns the result that it brought, if any."""
        match text.split(maxsplit=2):
            case ["#", "begin", script]:
                self._begin(script)
            case ["#", "end", ended] if len(words := ended.split()) == 2:
                return self._end(*words)
            case ["ok", name]:
                return self.add(name)
            case ["not", "ok", rest]:
                name, _, reason = rest.partition(" ")
                return self.add(name, reason or "no reason given")
            case _:
                self._log.append(text)
        return None

    def add(self, name: str, reason: str | None = None) -> Result:
        """Adds a result, with what was logged since the one before."""
        result = Result(f"{self.running}/{name}" if self.running else name, reason, tuple(self._log))
        self._log.clear()
        self.results.append(result)
        return result

    def finish(self, why: str) -> list[Result]:
        """The guest is gone, for this reason: what it did not get to has failed."""
        before = len(self.results)
        if self.running:
            self.add("end", f"did not end: {why}")
            self._ended.add(self.running)
            self.running = None
        for script in self.expected:
            if script not in self._ended:
                self.add(f"{script}/begin", f"did not run: {why}")
        return self.results[before:]

    def kernel(self, console: str, *, losses: bool = False) -> Result:
        """Judges the kernel's log; `losses` says that sessions were to be lost."""
        lines = without_known_warnings(console.splitlines())
        self._log = [line for line in lines if KERNEL_FAULT.search(line) or (not losses and LOSS.search(line))]
        return self.add("kernel/log", self._log[0].strip() if self._log else None)

    @property
    def untouched(self) -> bool:
        """Whether no script has begun."""
        return self.running is None and not self.results and not self._ended

    @property
    def complete(self) -> bool:
        """Whether every script has ended."""
        return self.running is None and self._ended >= set(self.expected)

    @property
    def failed(self) -> int:
        """How many results are failures."""
        return sum(result.reason is not None for result in self.results)

    def _begin(self, script: str) -> None:
        self.running = script
        self._log.clear()

    def _end(self, script: str, status: str) -> Result | None:
        self._ended.add(script)
        prefix = f"{script}/"
        if status != "0":
            ended = self.add("end", f"exit status {status}")
        elif not any(result.name.startswith(prefix) for result in self.results):
            ended = self.add("end", "the script brought no result")
        else:
            ended = None
        self.running = None
        return ended


def without_known_warnings(lines: list[str]) -> list[str]:
    """Leaves each warning out, from its first line to the end of its trace, if its calls are those of one of `KNOWN_WARNINGS`."""
    kept: list[str] = []
    begun: int | None = None
    for line in lines:
        kept.append(line)
        if "WARNING: CPU" in line:
            begun = len(kept) - 1
        elif WARNING_ENDS in line and begun is not None:
            warning = kept[begun:]
            if any(all(any(call in told for told in warning) for call in calls) for calls in KNOWN_WARNINGS):
                del kept[begun:]
            begun = None
    return kept
