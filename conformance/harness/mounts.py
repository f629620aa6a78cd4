"""Mounts that nobody else sees."""
import subprocess
from contextlib import contextmanager
from pathlib import Path

TIME_LIMIT = 60


@contextmanager
def mounted(command, *words):
    """Runs a command of the shell with these words in a mount namespace of its own, and gives the place of that namespace's root. What is mounted ends with it."""
    script = f"mount --make-rprivate / && {command} && echo mounted && read -r _"
    line = ["unshare", "--mount", "sh", "-c", script, "sh", *map(str, words)]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as shell:
        said = shell.stdout.readline().strip()
        if said != "mounted":
            raise RuntimeError(f"{command}: {said}: it needs root")
        try:
            yield Path(f"/proc/{shell.pid}/root")
        finally:
            shell.stdin.close()
            shell.wait(TIME_LIMIT)
