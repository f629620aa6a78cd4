#!/usr/bin/env python3
"""The volume contract's suite over the wire: Linerate's own clients as volumes, on Linerate's servers and on Debian's tgt.

What a local volume promises a remote one promises too (docs/volume-contract.md). Against Linerate both protocols, over TCP and over RDMA, are judged on RAM and on
file volumes. tgt is a peer that nobody here wrote, as a thin and as a thick disk, and as a portal that sends logins elsewhere; what it is known to do
otherwise is named below, with what was seen.
"""
import argparse
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent))
from harness import Account, Linerate, Tgt, linerate_binary, temporary_folder  # noqa: E402

ROOT = HERE.parents[1]
SIZE = 24 << 20
# Blocks whose reads fail with a medium error, behind the check that needs such.
BAD = "40-42"
# A suite takes seconds; this is for a machine that has other things to do.
TIME_LIMIT = 600
# Faults of tgt 1.0.85, in the words of `examples/contract`:
# `compare=0`: its block limits page (B0h) gives a MAXIMUM COMPARE AND WRITE LENGTH, and it answers COMPARE AND WRITE with INVALID COMMAND
# OPERATION CODE.
# `torn`: requests that overlap go to the page cache side by side, whose blocks then hold parts of both, now and then: "block 131 carries the
# stamp (3, 439), but from byte 192 on it is not that write's".
TGT_FAULTS = ("torn", "compare=0")


def program():
    """The suite as a program."""
    path = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug" / "examples" / "contract"
    if not path.exists():
        sys.exit(f"{path} is not there: `cargo build -p linerate --example contract` builds it")
    return path


def judge(url, *faults):
    """Runs the suite on a volume; its words are the failure's."""
    done = subprocess.run([program(), url, *faults], capture_output=True, text=True, timeout=TIME_LIMIT)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"the suite ended with {done.returncode}")


def tests(folder):
    """Names, and what to do."""
    volumes = ("ram=ram:24M", f"file=file:{folder}/disk.img?size=24M", f"wide=file:{folder}/wide.img?size=24M&block=4096",
               f"bad=fail=1/1,on=read,blocks={BAD}+ram:24M")

    def served(protocol, volume, driver, *faults):
        with Linerate(folder, volumes, driver=driver) as server:
            judge(getattr(server, protocol)(volume), *faults)

    def foreign(thin):
        with Tgt(folder, SIZE) as target:
            unit = ("--mode", "logicalunit", "--tid", "1", "--lun", "1")
            target.admin(*unit, "--op", "update", "--params", f"thin_provisioning={thin}")
            judge(target.iscsi("disk"), *TGT_FAULTS)

    def redirected(reason):
        # Two of them: the first sends each login to the second, which has the data. It does not send a client to its own address.
        elsewhere = "127.0.0.2"
        places = [Path(folder) / f"{reason}-{number}" for number in (1, 2)]
        for place in places:
            place.mkdir()
        with Tgt(places[0], SIZE) as front, Tgt(places[1], SIZE) as back:
            (places[1] / "tgt.img").write_bytes(bytes(range(256)) * (SIZE // 256))
            back.admin("--mode", "portal", "--op", "new", "--param", f"portal={elsewhere}:{back.port}")
            address = (("RedirectAddress", elsewhere), ("RedirectPort", back.port), ("RedirectReason", reason))
            for name, value in address:
                front.admin("--mode", "target", "--op", "update", "--tid", "1", "--name", name, "--value", str(value))
            found = subprocess.run(
                [linerate_binary(), "compare", f"file:{places[1]}/tgt.img", front.iscsi("disk")],
                capture_output=True, text=True, timeout=TIME_LIMIT)
            if found.returncode != 0 or not found.stdout.startswith(f"equal: {SIZE} bytes"):
                raise RuntimeError(found.stdout + found.stderr)

    def cached(mode):
        # A remote capacity volume, a remote fast one, and a cache that is served.
        with Linerate(folder, ("ram=ram:24M", "fast=ram:2M", f"cache=cache=[ram:2M,ram:24M]?mode={mode}")) as server:
            judge(f"cache=[ram:2M,{server.nvme('ram')}]?mode={mode}")
            judge(f"cache=[{server.nvme('fast')},ram:24M]?mode={mode}")
            judge(server.nvme("cache"))

    def mirrored(*legs):
        # Each suite has a server of its own, whose legs are blank.
        volumes = ("one=ram:24M", "two=ram:24M", "three=ram:24M", "four=ram:24M")
        with Linerate(folder, volumes) as server:
            place = {"ram": "ram:24M", "iscsi": server.iscsi("one"), "nvme": server.nvme("two"), "iser": server.iser("three"), "nvme_rdma": server.nvme_rdma("four"),
                     "cache": "cache=[ram:2M,ram:24M]", "mirror": f"mirror=[{server.iscsi('one')},ram:24M]"}
            judge(f"mirror=[{','.join(place[leg] for leg in legs)}]")

    def above_and_below():
        with Linerate(folder, ("one=ram:24M", "two=cache=[ram:2M,ram:24M]?mode=back", "three=ram:24M", "mirror=mirror=[ram:24M,cache=[ram:2M,ram:24M]]")) as server:
            judge(f"cache=[ram:2M,mirror=[{server.iscsi('one')},{server.nvme('two')}]]?mode=back")
            judge(f"mirror=[{server.iscsi('three')},cache=[ram:2M,ram:24M]?mode=back]")
            judge(server.nvme("mirror"))
            judge(server.iscsi("mirror"))

    for legs in (("ram", "nvme"), ("iscsi", "nvme"), ("iser", "nvme_rdma"), ("iscsi", "nvme", "ram"), ("cache", "iscsi"), ("mirror", "nvme")):
        yield f"mirror of {' and '.join(legs)}", lambda legs=legs: mirrored(*legs)
    yield "a cache over a mirror, a mirror over caches, mirrors that are served", above_and_below
    for mode in ("through", "back"):
        yield f"cache, {mode}", lambda mode=mode: cached(mode)
    for protocol in ("iscsi", "nvme", "iser", "nvme_rdma"):
        for volume in ("ram", "file", "wide"):
            yield f"{protocol}, {volume}", lambda protocol=protocol, volume=volume: served(protocol, volume, "auto")
        yield f"{protocol}, bad blocks", lambda protocol=protocol: served(protocol, "bad", "auto", f"bad={BAD}")
        yield f"{protocol}, ram, on epoll", lambda protocol=protocol: served(protocol, "ram", "epoll")
    yield "iscsi, tgt, thin", lambda: foreign(1)
    yield "iscsi, tgt, thick", lambda: foreign(0)
    for reason in ("Temporary", "Permanent"):
        yield f"iscsi, tgt sends elsewhere, {reason.lower()}", lambda reason=reason: redirected(reason)


def main():
    """Runs the suite on every volume."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--test", default="", metavar="PART", help="only tests whose name has this")
    wanted = parser.parse_args().test
    account = Account("contract")
    with temporary_folder() as folder:
        for name, run in tests(folder):
            if wanted in name:
                with account.test(name):
                    run()
    return account.close()


if __name__ == "__main__":
    sys.exit(main())
