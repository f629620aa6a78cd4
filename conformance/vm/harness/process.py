"""Child processes: short commands whose failure is an error, and long-lived children that never outlive the harness.

A child is its own session, so that it can be ended by its process group and by nothing broader; and the kernel is told to kill it
should the harness itself be killed, because then no `finally` runs.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

GRACE_SECONDS = 10.0
"""How long a child may take to end after SIGTERM, before SIGKILL."""


class HarnessError(Exception):
    """Something outside the tests went wrong; the message says what, and what to do about it."""


def output(argv: Sequence[str | Path], *, cwd: Path | None = None, stdin: bytes | None = None) -> bytes:
    """Runs a short command to its end and returns what it wrote."""
    try:
        done = subprocess.run(argv, cwd=cwd, input=stdin, capture_output=True, check=False)
    except FileNotFoundError as missing:
        raise HarnessError(f"{missing.filename} is not installed; see conformance/vm/packages.txt") from missing
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise HarnessError(f"{' '.join(map(str, argv))} failed with {done.returncode}: {said}")
    return done.stdout


def command(argv: Sequence[str | Path], *, cwd: Path | None = None, stdin: bytes | None = None) -> str:
    """Runs a short command to its end and returns the text that it printed."""
    return output(argv, cwd=cwd, stdin=stdin).decode(errors="replace")


class Child:
    """A long-lived process. As a context manager it is gone when the block is left, however that happens."""

    def __init__(
        self, argv: Sequence[str | Path], *, stdout: int, stderr: int, stdin: int = subprocess.DEVNULL, env: Mapping[str, str] | None = None
    ) -> None:
        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *argv],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=None if env is None else {**os.environ, **env},
            start_new_session=True,
        )

    @property
    def descriptor(self) -> int:
        """The descriptor to read the child's standard output from, if it was opened with PIPE."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    @property
    def process(self) -> int:
        """The process's number; what stands before a command to prepare for it becomes that command."""
        return self._process.pid

    def read(self) -> bytes:
        """Some of the child's standard output; nothing at its end."""
        return os.read(self.descriptor, 65536)

    def write(self, data: bytes) -> None:
        """Says something to the child, if its standard input was opened with PIPE. One that has ended hears nothing, which is no error here: whoever
        reads from it or waits for it learns of its end, and how it came."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(data)
            self._process.stdin.flush()

    def exit_code(self) -> int | None:
        """The exit code, or None while the child runs; negative means ended by that signal."""
        return self._process.poll()

    def wait(self, seconds: float) -> int | None:
        """Waits at most so long for the child to end by itself."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def send(self, order: signal.Signals) -> None:
        """Sends the child a signal; what it started hears nothing of it."""
        self._process.send_signal(order)

    def stop(self, *orders: signal.Signals) -> int:
        """Ends the child by signals to its process group: SIGTERM, and SIGKILL if that is ignored. Returns its exit code."""
        for order in orders or (signal.SIGTERM, signal.SIGKILL):
            if self.exit_code() is None:
                os.killpg(self._process.pid, order)
                self.wait(GRACE_SECONDS)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                # What a dead child was not told any more is still in the pipe's buffer.
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        return self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
