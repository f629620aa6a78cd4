#!/usr/bin/env python3
"""fio with Linerate's engine against Linerate: data verified by fio, requests counted on both sides.

fio writes with checksums in every block and reads them back, over block sizes and mixes, queue depths, threads and processes, several jobs,
both protocols and local volumes. Then fio's own counts of requests are compared with those of the target's `stats` filter; what fails on the
target must fail in fio; and what fio is told wrongly must be refused with a text that helps.

    run.py                  a Linerate of its own
    run.py --driver epoll   its server on the loop for machines without io_uring
"""
import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent))
from harness import Account, Linerate, temporary_folder  # noqa: E402

# Seconds for one fio.
TIME_LIMIT = 120
SIZE = "48M"
MODES = {"thread": ("--thread",), "fork": ()}


def build():
    """The engine for the fio that is here."""
    run = subprocess.run([HERE / "build"], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"the engine cannot be built:\n{run.stderr}")
    return run.stdout.strip()


class Fio:
    """fio with the engine, in a folder for what it leaves."""

    def __init__(self, engine, folder):
        self.engine, self.folder = engine, folder

    def command(self, uri, *options):
        """The command line of one job."""
        return ["fio", "--name=job", f"--ioengine=external:{self.engine}", *([f"--uri={uri}"] if uri else []), "--output-format=json", *options]

    def begin(self, uri, *options):
        """Starts one job."""
        return subprocess.Popen(self.command(uri, *options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder)

    def start(self, uri, *options):
        """Runs one job and gives the finished process."""
        return subprocess.run(self.command(uri, *options), capture_output=True, text=True, timeout=TIME_LIMIT, cwd=self.folder)

    def run(self, uri, *options):
        """Runs a job that must succeed, and gives its results."""
        run = self.start(uri, *options)
        if run.returncode != 0:
            raise RuntimeError(f"fio ended with {run.returncode}:\n{run.stdout[-2000:]}\n{run.stderr}")
        return jobs(run.stdout)

    def refused(self, words, uri, *options):
        """Runs a job that must fail, with these words."""
        run = self.start(uri, *options)
        text = run.stdout + run.stderr
        if run.returncode == 0 or words not in text:
            raise RuntimeError(f"expected a failure that says {words!r}, fio ended with {run.returncode}:\n{text[-2000:]}")


def jobs(output):
    """The jobs of fio's JSON, which may follow lines of text."""
    return json.loads(output[output.index("{\n"):])["jobs"]


def counts(results):
    """Requests that fio counted, by direction. A flush of fio's own at a job's end may be missing from it."""
    return {name: sum(job[name]["total_ios"] for job in results) for name in ("read", "write", "trim")}


def verify(fio, uri, mode, *options):
    """Writes with checksums and reads back; fio must have checked something, and found nothing."""
    results = fio.run(uri, f"--size={SIZE}", "--verify=crc32c", "--verify_fatal=1", *MODES[mode], *options)
    done = counts(results)
    if not done["write"] or not done["read"]:
        raise RuntimeError(f"nothing was written or nothing was verified: {done}")


def verifications(fio, account, urls):
    """Every volume, over block sizes, mixes, depths and ways to run."""
    small = ("--size=2M", "--number_ios=4096")
    shapes = {
        "512 bytes": ("--rw=randwrite", "--bs=512", "--iodepth=32", *small),
        "4 KiB, depth 128": ("--rw=randwrite", "--bs=4k", "--iodepth=128"),
        "64 KiB in order": ("--rw=write", "--bs=64k", "--iodepth=8"),
        "1 MiB, depth 1": ("--rw=write", "--bs=1M", "--iodepth=1"),
        "mix of 512 bytes to 1 MiB, flushes": ("--rw=randrw", "--bsrange=512-1M", "--iodepth=16", "--fsync=7"),
        "mix of 4 and 128 KiB, durable": ("--rw=randrw", "--bssplit=4k/60:128k/40", "--iodepth=32", "--sync=1"),
        "batches": ("--rw=randwrite", "--bs=4k", "--iodepth=64", "--iodepth_batch=16", "--iodepth_batch_complete_min=8", "--spin=0"),
    }
    for kind, uri in urls.items():
        for number, (shape, options) in enumerate(shapes.items()):
            mode = ("thread", "fork")[number % 2]
            with account.test(f"{kind}: {shape}, {mode}"):
                verify(fio, uri, mode, *options)


def several_jobs(fio, account, server):
    """Jobs side by side on one volume, each on a part of its own; and one job over volumes of both protocols."""
    for mode in MODES:
        with account.test(f"three jobs, {mode}"):
            uri = server.iscsi("disk") if mode == "fork" else server.nvme("disk")
            verify(fio, uri, mode, "--rw=randwrite", "--bs=8k", "--iodepth=16", "--size=8M", "--numjobs=3", "--offset_increment=8M")
    with account.test("two volumes in one job"):
        uri = f"{server.iscsi('disk')} {server.nvme('other')}"
        verify(fio, uri, "thread", "--rw=randwrite", "--bs=4k", "--iodepth=16", "--size=16M")


def wrong_data(fio, account, server):
    """fio's verification is awake: a volume that forgets what is written is found out."""
    for protocol, uri in (("iscsi", server.iscsi("forgetful")), ("nvme", server.nvme("forgetful"))):
        with account.test(f"a volume that forgets: {protocol}"):
            fio.refused("verify: bad", uri, "--rw=randwrite", "--bs=4k", "--iodepth=8", "--size=1M", "--verify=crc32c", "--verify_fatal=1", "--thread")


def trims(fio, account, server):
    """Discards are requests like others, and what was trimmed reads as zeroes."""
    for uri in (server.iscsi("disk"), server.nvme("disk")):
        with account.test(f"trim: {uri.split(':')[0]}"):
            done = counts(fio.run(uri, "--rw=randtrim", "--bs=64k", "--iodepth=16", "--size=16M"))
            if done["trim"] != 256:
                raise RuntimeError(f"of 256 trims fio counted {done['trim']}")
            fio.run(uri, "--rw=read", "--bs=64k", "--size=16M", "--verify=pattern", "--verify_pattern=0x0")


def counters(fio, account, folder, driver):
    """fio and the target count the same requests, within one in a hundred: reads, writes, trims and their bytes."""
    for protocol in ("iscsi", "nvme"):
        with account.test(f"counters: {protocol}"):
            place = folder / f"counters-{protocol}"
            place.mkdir()
            with Linerate(place, ["disk=stats+null:256M"], driver) as server:
                uri = getattr(server, protocol)("disk")
                options = ("--bs=4k", "--iodepth=32", "--size=256M", "--io_size=128M", "--thread")
                results = fio.run(uri, "--rw=randrw", "--rwmixread=70", *options) + fio.run(uri, "--rw=randtrim", *options)
            compare(counts(results), counted(server.log.read_text(), "disk"))


def counted(log, volume):
    """Requests by direction, from the line that the server writes at its end."""
    line = next(line for line in log.splitlines() if f"volume {volume} counted" in line)
    found = {name: int(count) for count, name in re.findall(r"(\d+) (reads|writes|discards) of", line)}
    return {"read": found.get("reads", 0), "write": found.get("writes", 0), "trim": found.get("discards", 0)}


def compare(ours, theirs):
    """Demands that both have counted the same, but for one in a hundred."""
    for name, count in ours.items():
        if not count or abs(count - theirs[name]) * 100 > count:
            raise RuntimeError(f"{name}: fio counted {count}, the target {theirs[name]}")


def failures(fio, account, server):
    """What the target cannot do is an error in fio, with the system's number, and is counted where fio is told to go on."""
    for protocol, uri in (("iscsi", server.iscsi("bad")), ("nvme", server.nvme("bad"))):
        with account.test(f"a failing medium: {protocol}"):
            fio.refused("Input/output error", uri, "--rw=randread", "--bs=4k", "--iodepth=4", "--size=8M", "--thread")
            results = fio.run(uri, "--rw=randread", "--bs=4k", "--iodepth=4", "--size=8M", "--continue_on_error=io")
            if not results[0]["total_err"]:
                raise RuntimeError("fio counted no error though every seventh read fails")
        with account.test(f"a protected volume: {protocol}"):
            words = "Read-only file system" if protocol == "nvme" else "error"
            fio.refused(words, getattr(server, protocol)("fixed"), "--rw=randwrite", "--bs=4k", "--size=1M")


def lost_server(fio, account, folder, driver):
    """A server that dies ends the job in time, with its reason, and does not hang it."""
    for protocol in ("iscsi", "nvme"):
        with account.test(f"a server that dies: {protocol}"):
            place = folder / f"lost-{protocol}"
            place.mkdir()
            image = place / "disk.img"
            server = Linerate(place, [f"disk=file:{image}?size=1G"], driver)
            uri = f"{getattr(server, protocol)('disk')}?reconnect=1s"
            empty = image.stat().st_blocks
            job = fio.begin(uri, "--rw=write", "--bs=64k", "--iodepth=4", "--rate=16M", "--time_based", "--runtime=600", "--thread")
            try:
                deadline = time.monotonic() + TIME_LIMIT
                while image.stat().st_blocks == empty and job.poll() is None and time.monotonic() < deadline:
                    time.sleep(0.02)
            finally:
                server.process.kill()
                server.process.wait()
                text = "".join(job.communicate(timeout=TIME_LIMIT))
            if job.returncode == 0 or "Input/output error" not in text or "linerate: volume 0: " not in text:
                raise RuntimeError(f"fio ended with {job.returncode}:\n{text[-2000:]}")


def misuse(fio, account, server):
    """What is asked wrongly is refused with a text that says what to do."""
    cases = {
        "no volume": ("uri= is missing", "", ()),
        "no such scheme": ("tape", "tape:0", ()),
        "no such target": ("nothing", server.iscsi("nothing"), ()),
        "nobody listens": ("refused", "nvme+tcp://127.0.0.1:1/nqn.2026-11.org.linerate:disk/1", ()),
        "a file name": ("uri=, separated by spaces", server.iscsi("disk"), ("--filename=x",)),
        "offloaded submission": ("offloaded submit", server.nvme("disk"), ("--io_submit_mode=offload", "--size=1M")),
        "blocks that do not fit": ("set bs= to a multiple", server.nvme("disk"), ("--bs=100", "--size=1M")),
    }
    for name, (words, uri, options) in cases.items():
        with account.test(f"misuse: {name}"):
            fio.refused(words, uri, "--rw=read", "--thread", *options)


def another_release(account, engine, folder):
    """A fio of another release is refused before the engine has touched anything: here, by its version string alone."""
    with account.test("a fio of another release"):
        source = folder / "other.c"
        source.write_text(
            "#include <dlfcn.h>\n#include <stdarg.h>\n#include <stdio.h>\n"
            'const char fio_version_string[] = "fio-0.0";\n'
            "void log_err(const char *f, ...) {}\nvoid add_file(void) {}\nvoid __td_verror(void) {}\n"
            "int main(int c, char **v) { void *h = dlopen(v[1], RTLD_LAZY), *o = &o;\n"
            '  if (!h) { puts(dlerror()); return 2; }\n'
            '  ((void (*)(void **)) dlsym(h, "get_ioengine"))(&o); return o ? 1 : 0; }\n')
        program = folder / "other"
        subprocess.run(["cc", "-rdynamic", "-o", program, source], check=True)
        run = subprocess.run([program, engine], capture_output=True, text=True)
        if run.returncode != 0 or "cannot run in fio-0.0" not in run.stderr:
            raise RuntimeError(f"not refused: {run.returncode}\n{run.stdout}{run.stderr}")


def licences(account):
    """The engine is under GPL-2.0: nothing that it links may be under Apache-2.0 alone."""
    with account.test("licences of what is linked"):
        command = ["cargo", "tree", "-p", "fio-engine", "--edges", "normal", "--prefix", "none", "--format", "{p}|{l}"]
        tree = subprocess.run(command, capture_output=True, text=True, check=True, cwd=HERE)
        lines = {line.replace(" (*)", "") for line in tree.stdout.splitlines() if "|" in line}
        alone = [line for line in lines if all("Apache-2.0" in one for one in re.split(r" OR |/", line.rsplit("|", 1)[1]))]
        if alone or len(lines) < 10:
            raise RuntimeError(f"under Apache-2.0 alone, of {len(lines)}: {alone}")


def main():
    """Parses the command line and runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--driver", default="auto", choices=("auto", "uring", "epoll"))
    arguments = parser.parse_args()
    engine = os.environ.get("LINERATE_FIO") or build()
    account = Account("fio")
    with temporary_folder() as name:
        folder = Path(name)
        fio = Fio(engine, folder)
        volumes = ["disk=ram:64M", "other=ram:64M?block=4096", "bad=fail=1/7,on=read+null:64M", "fixed=readonly+ram:64M", "forgetful=null:64M"]
        with Linerate(folder, volumes, arguments.driver) as server:
            urls = {"iSCSI": server.iscsi("disk"), "NVMe/TCP": server.nvme("disk"), "digests": server.iscsi("disk") + "?header_digest=crc32c&data_digest=crc32c",
                    "RAM": "ram:64M", "file": f"file:{folder}/fio.img?size=64M"}
            verifications(fio, account, urls)
            several_jobs(fio, account, server)
            wrong_data(fio, account, server)
            trims(fio, account, server)
            failures(fio, account, server)
            misuse(fio, account, server)
        lost_server(fio, account, folder, arguments.driver)
        counters(fio, account, folder, arguments.driver)
        another_release(account, engine, folder)
        licences(account)
    return account.close()


if __name__ == "__main__":
    sys.exit(main())
