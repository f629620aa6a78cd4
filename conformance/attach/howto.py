#!/usr/bin/env python3
"""`docs/howto/spare-the-host.md` is true: its commands are run as they stand there, one after the other, in one shell.

Two things are changed: the target listens on free ports, and the lab gets a shorter budget.
"""
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE.parent)]
from harness import Account, linerate_binary, temporary_folder  # noqa: E402

PAGE = ROOT / "docs/howto/spare-the-host.md"
SECONDS = 900
# Ends what is left when a command fails.
HEAD = "trap 'status=$?; kill $(jobs -p) 2> /dev/null; wait; exit $status' EXIT\n"


def script():
    """All blocks of shell commands of the page."""
    text = "".join(re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL))
    text = text.replace("linerate serve disk=ram:1G", "linerate serve disk=ram:1G --iscsi 127.0.0.1:0 --nvme 127.0.0.1:0")
    text = text.replace("iscsi://127.0.0.1/", "iscsi://$(sed -n 's/^iscsi //p' target.ready)/")
    return HEAD + re.sub(r"--budget \S+", "--budget 5s", text)


def follow_the_page(folder):
    """Every command ends well."""
    (folder / "bin").mkdir()
    (folder / "bin/linerate").symlink_to(linerate_binary())
    words = ["bash", "-e", "-c", script()]
    environment = os.environ | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    log = folder / "log"
    with log.open("w") as out:
        shell = subprocess.Popen(words, cwd=folder, env=environment, stdout=out, stderr=out, start_new_session=True)
    try:
        code = shell.wait(SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(shell.pid, signal.SIGTERM)
        shell.wait()
        code = f"no end within {SECONDS} s"
    if code != 0:
        raise RuntimeError(f"the page's commands ended with {code}\n{log.read_text()[-4000:]}")


def main():
    account = Account("spare the host")
    with account.test("every command of the page ends well"), temporary_folder() as folder:
        follow_the_page(Path(folder))
    return account.close()


if __name__ == "__main__":
    sys.exit(main())
