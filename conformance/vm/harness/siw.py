"""Linux' software iWARP as kernel modules: Debian's kernels come without siw, so it is built from the source package of the very version that is booted.

Three modules come of it: `siw` as it is, which asks for no CRC and leaves the first message to its user; `siw_strict`, whose constants say that it wants
CRCs and a peer-to-peer set-up (RFC 6581); and `siw_target`, for the side that is connected to, where two faults of siw's are mended (`MENDS`). Only one can be loaded at a time.

What is fetched and built stays in the cache; nothing of it is Linerate's, and nothing is kept in the repository.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

from .packages import Package, PackageIndex
from .process import HarnessError, command

FOLDER = "drivers/infiniband/sw/siw"
"""Where it is in the kernel's source."""
STRICT = ("mpa_crc_required", "peer_to_peer")
"""The constants of `siw_main.c` that are true in the second module."""
MENDS = (
    # What arrives between the MPA reply and the queue pair's hold on the socket is told to the connection manager, which passes over it: a peer's first FPDU
    # then lies in the socket until another one comes. The peer waits for the answer, and none comes.
    (
        "\t\tsiw_qp_socket_assoc(cep, qp);\n\t\trv = siw_cm_upcall(cep, IW_CM_EVENT_ESTABLISHED, 0);\n\t\tif (rv)\n\t\t\tgoto error;\n",
        "\t\tlock_sock(cep->sock->sk);\n\t\tcep->sock->sk->sk_data_ready(cep->sock->sk);\n\t\trelease_sock(cep->sock->sk);\n",
    ),
    # A connection that was not accepted yet has its listener's endpoint, which takes the end of that connection for its own, and stops to listen.
    (
        "\tcase TCP_CLOSE:\n\tcase TCP_CLOSE_WAIT:\n",
        "\t\tif (cep->state == SIW_EPSTATE_LISTENING)\n\t\t\tbreak;\n",
    ),
    # So nobody is told of that end: it is looked for when the connection is accepted.
    (
        "\tnew_cep->sock = new_s;\n\tsiw_cep_get(new_cep);\n\tnew_s->sk->sk_user_data = new_cep;\n",
        "\tif (new_s->sk->sk_state != TCP_ESTABLISHED)\n\t\tgoto error;\n",
    ),
)
"""Lines of `siw_cm.c`, each of which there is once, and those that come behind them in the third module."""


def packages(index: PackageIndex, kernel: Package, series: str) -> list[Package]:
    """What has to be fetched: the source, and what a module of this kernel is built with; all in the kernel's own version."""
    headers = kernel.name.replace("-image-", "-headers-")
    return [Package(name, kernel.version) for name in (f"linux-source-{series}", headers, *index.needs(headers, r"linux-(?:headers|kbuild)-\S+"))]


def build(index: PackageIndex, fetched: tuple[Package, ...], target: Path) -> None:
    """Builds the modules and puts them into a folder, which must not exist."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="building-") as name:
        scratch = Path(name)
        index.unpack(fetched, scratch)
        headers = prepared_headers(scratch / "usr/src")
        source = unpacked_source(scratch / "usr/src")
        finished = scratch / "finished"
        finished.mkdir()
        for module in ("siw", *CHANGES):
            folder = scratch / module
            shutil.copytree(source, folder)
            if module in CHANGES:
                CHANGES[module](folder)
                rename(folder, module)
            # BTF, which describes types for BPF, wants one more program.
            command(["make", "-s", "-C", headers, f"M={folder}", "CONFIG_RDMA_SIW=m", "CONFIG_DEBUG_INFO_BTF_MODULES=", "modules"])
            command(["strip", "--strip-debug", "-o", finished / f"{module}.ko", folder / f"{module}.ko"])
        finished.rename(target)


def prepared_headers(sources: Path) -> Path:
    """The kernel's own folder of headers, told where the common ones are: its makefile names the place where a package is installed."""
    makefile = next(path for path in sources.glob("linux-headers-*/Makefile") if not path.parent.name.endswith("-common"))
    makefile.write_text(makefile.read_text().replace("/usr/src/", f"{sources}/"))
    return makefile.parent


def unpacked_source(sources: Path) -> Path:
    """siw's folder out of the kernel's source."""
    archive = next(sources.glob("linux-source-*.tar.xz"))
    command(["tar", "--extract", "--file", archive, "--wildcards", f"*/{FOLDER}/*"], cwd=sources)
    return next(sources.glob(f"linux-source-*/{FOLDER}"))


def make_strict(folder: Path) -> None:
    """Changes the constants."""
    main = folder / "siw_main.c"
    text = main.read_text()
    for constant in STRICT:
        text, found = re.subn(rf"^const bool {constant};", f"const bool {constant} = true;", text, flags=re.MULTILINE)
        if found != 1:
            raise HarnessError(f"siw_main.c has no constant {constant} any more: see what harness/siw.py has to change instead")
    main.write_text(text)


def mend(folder: Path) -> None:
    """Mends what is at fault where siw is connected to."""
    manager = folder / "siw_cm.c"
    text = manager.read_text()
    for before, added in MENDS:
        if text.count(before) != 1:
            raise HarnessError(f"siw_cm.c does not have these lines once: see what harness/siw.py has to mend instead:\n{before}")
        text = text.replace(before, before + added)
    manager.write_text(text)


def rename(folder: Path, name: str) -> None:
    """Gives the module another name."""
    makefile = folder / "Makefile"
    makefile.write_text(re.sub(r"\bsiw\.o", f"{name}.o", makefile.read_text()).replace("siw-y", f"{name}-y"))


CHANGES = {"siw_strict": make_strict, "siw_target": mend}
"""What is done to the source for the modules beside siw as it is."""
