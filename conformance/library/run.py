#!/usr/bin/env python3
"""The library from outside: a C program and the Python module over the shared library, on local volumes and against Linerate.

    run.py                  a Linerate of its own
    run.py --driver epoll   its server on the loop for machines without io_uring
"""
import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "attach")]
from adapter import Attach  # noqa: E402
from harness import Account, Linerate, temporary_folder  # noqa: E402

# Seconds for one program.
TIME_LIMIT = 300
CRATE = ROOT / "crates" / "linerate"


def build():
    """The shared library: $LINERATE_LIBRARY, or a build of this checkout."""
    if named := os.environ.get("LINERATE_LIBRARY"):
        return Path(named)
    subprocess.run(["cargo", "rustc", "-p", "linerate", "--lib", "--release", "--quiet", "--crate-type", "cdylib"], cwd=ROOT, check=True)
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "liblinerate.so"


def run(*command, **variables):
    """Runs a program that must succeed, and gives its output."""
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"} | variables
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=TIME_LIMIT, env=environment)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def c_program(account, library, folder, urls):
    """The example compiles as C and as C++ without a warning, and succeeds on every kind of volume."""
    program = folder / "exercise"
    strict = ("-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{CRATE}/include")
    with account.test("the header is C11 and C++"):
        run("cc", "-std=c11", *strict, "-o", program, CRATE / "examples" / "exercise.c", f"-L{library.parent}", "-llinerate", "-lpthread",
            f"-Wl,-rpath,{library.parent}")
        run("c++", "-std=c++17", *strict, "-fsyntax-only", "-x", "c++", CRATE / "include" / "linerate.h")
    for kind, url in urls.items():
        with account.test(f"C: {kind}"):
            text = run(program, url)
            if "refused as it should be" not in text:
                raise RuntimeError(text)
    with account.test("C: a URL that cannot be read"):
        done = subprocess.run([program, "tape:0"], capture_output=True, text=True)
        if done.returncode != 1 or "tape" not in done.stderr:
            raise RuntimeError(f"{done.returncode}: {done.stderr}")


def python_wheel(account, library, folder, urls):
    """A wheel that carries the library, installed into an environment of its own, passes the module's tests without any variable; its hints are known."""
    with account.test("Python: a wheel"):
        wheel = run(sys.executable, ROOT / "python" / "wheel.py", library, folder / "dist").strip()
        run(sys.executable, "-m", "venv", folder / "venv")
        python = folder / "venv" / "bin" / "python"
        run(python, "-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", wheel)
        environment = {name: value for name, value in os.environ.items() if name not in ("LINERATE_LIBRARY", "PYTHONPATH")}
        words = [python, "-W", "error", "-m", "unittest", "discover", "-s", ROOT / "python" / "tests"]
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=TIME_LIMIT, cwd=folder,
                              env={**environment, "PYTHONDONTWRITEBYTECODE": "1", **urls})
        if done.returncode != 0:
            raise RuntimeError(done.stdout + done.stderr)
        where = "import linerate, pathlib; print(pathlib.Path(linerate.__file__).parent)"
        installed = Path(run(python, "-c", where).strip())
        if not (installed / "py.typed").exists() or not installed.is_relative_to(folder):
            raise RuntimeError(f"{installed} is not the wheel's, or has no hints")


def python_module(account, library, urls):
    """The module's own tests, on every kind of volume."""
    with account.test("Python: its tests"):
        text = run(sys.executable, "-W", "error", "-m", "unittest", "discover", "-s", ROOT / "python" / "tests", LINERATE_LIBRARY=str(library),
                   PYTHONPATH=str(ROOT / "python"), **urls)
        ran = re.search(r"Ran (\d+) tests", text)
        if not ran or int(ran[1]) < 12:
            raise RuntimeError(text)
    with account.test("Python: the library is missing"):
        script = "import linerate; linerate.open('ram:1M')"
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
        environment.pop("LINERATE_LIBRARY", None)
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
        if done.returncode != 1 or "set LINERATE_LIBRARY" not in done.stderr:
            raise RuntimeError(f"{done.returncode}: {done.stderr}")


def main():
    """Parses the command line and runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--driver", default="auto", choices=("auto", "uring", "epoll"))
    arguments = parser.parse_args()
    library = build()
    account = Account("library")
    with temporary_folder() as name:
        folder = Path(name)
        with Linerate(folder, ["disk=ram:16M", "iscsi-loss=fail=1/2,on=flush+ram:4M", "nvme-loss=fail=1/2,on=flush+ram:4M"], arguments.driver) as server:
            digests = "?header_digest=crc32c&data_digest=crc32c"
            urls = {"file": f"file:{folder}/disk.img?size=16M", "iSCSI": server.iscsi("disk"), "iSCSI with digests": server.iscsi("disk") + digests,
                    "NVMe/TCP": server.nvme("disk")}
            with Attach(folder, server.nvme("disk"), "vhost-user", "shared.sock"):
                c_program(account, library, folder, {"RAM": "ram:16M", **urls, "shared memory": f"vhost-user:{folder}/shared.sock"})
            portals = [url.split("/iqn.")[0].split("/nqn.")[0] for url in (server.iscsi("disk"), server.nvme("disk"))]
            variables = {"LINERATE_URLS": " ".join(urls.values()), "LINERATE_PORTALS": " ".join(portals),
                         "LINERATE_LOSSES": f"{server.iscsi('iscsi-loss')} {server.nvme('nvme-loss')}"}
            python_module(account, library, variables)
            python_wheel(account, library, folder, variables)
    return account.close()


if __name__ == "__main__":
    sys.exit(main())
