#!/usr/bin/env python3
"""QEMU's block layer against Linerate: images converted and compared, patterns written in many ways, over `iscsi://`.

QEMU reaches iSCSI through libiscsi. Each kind of volume (RAM, file) and each way to log in (open, CHAP, header digests, both) runs the same
tests. What QEMU wrote is then read by Linerate's own host over NVMe/TCP (or, where the volume asks for CHAP, by Linerate's own initiator) and
compared with a model that never saw a network.

    run.py                  a Linerate of its own
    run.py --driver epoll   the reactor's loop for machines without io_uring
    run.py --peer tgt       Debian's tgt instead, read back by QEMU itself: proves the runner
"""
import argparse
import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent))
from harness import Account, Linerate, Tgt, linerate_binary, temporary_folder  # noqa: E402

MIB = 1 << 20
SIZE = 64 * MIB
USER = "qemu"
SECRET = "a-secret-of-20-bytes"
# Seconds for one command of QEMU.
TIME_LIMIT = 120


@dataclass(frozen=True)
class Variant:
    """A way to reach a volume."""

    name: str
    volume: str
    chap: bool = False
    digest: bool = False

    def image(self, server):
        """The volume in QEMU's own words: its options say what an iscsi:// URL cannot."""
        portal, target, lun = server.iscsi(self.volume).removeprefix("iscsi://").rsplit("/", 2)
        options = {"driver": "raw", "file.driver": "iscsi", "file.transport": "tcp", "file.portal": portal,
                   "file.target": target, "file.lun": lun, "file.header-digest": "crc32c" if self.digest else "none"}
        if self.chap:
            options |= {"file.user": USER, "file.password-secret": "chap"}
        return ",".join(f"{key}={value}" for key, value in options.items())


def command(*arguments, succeeds=True):
    """Runs a command and gives its output; fails if its status is not as it should be."""
    run = subprocess.run([str(word) for word in arguments], capture_output=True, text=True, timeout=TIME_LIMIT)
    if (run.returncode == 0) != succeeds:
        raise RuntimeError(f"{arguments[0]} {arguments[1]} ended with {run.returncode}\n{run.stdout}{run.stderr}")
    return run.stdout + run.stderr


def secret(folder):
    """The secret as an object of QEMU's, and as the file that the server reads."""
    path = Path(folder) / "chap-secret"
    path.write_text(SECRET)
    return ("--object", f"secret,id=chap,file={path}")


def make_image(folder):
    """A compressed qcow2 with what real images have: data, runs of zeroes, repetition, holes. Gives it and its raw content."""
    raw, image = folder / "image.raw", folder / "image.qcow2"
    source = random.Random(2)
    with raw.open("wb") as out:
        out.truncate(SIZE)
        for at in range(0, SIZE, 4 * MIB):
            out.seek(at + source.randrange(0, 64) * 512)
            out.write(source.randbytes(source.randrange(1, MIB)) + bytes(70000) + b"linerate" * 9000)
    command("qemu-img", "convert", "-c", "-f", "raw", "-O", "qcow2", raw, image)
    return image, raw


class Tests:
    """The tests of one variant on one server."""

    def __init__(self, server, variant, folder):
        self.server, self.variant, self.folder = server, variant, folder
        self.options = ("--image-opts",)
        self.secret = secret(folder) if variant.chap else ()
        self.image = variant.image(server)

    def io(self, *steps, succeeds=True):
        """qemu-io with steps; a pattern that does not read back is a failure though qemu-io may end with 0."""
        words = [word for step in steps for word in ("-c", step)]
        output = command("qemu-io", *self.secret, "-t", "none", "-d", "unmap", *self.options, *words, self.image, succeeds=succeeds)
        if succeeds and ("failed" in output.lower() or "error" in output.lower()):
            raise RuntimeError(output)
        return output

    def read_back(self):
        """The whole volume, read by a client that is not QEMU where there is one."""
        out = self.folder / "back.raw"
        out.unlink(missing_ok=True)
        if isinstance(self.server, Tgt):
            command("qemu-img", "convert", *self.secret, *self.options, "-O", "raw", self.image, out)
        elif self.variant.chap:
            options = f"?chap_user={USER}&chap_secret_file={self.folder}/chap-secret"
            command(linerate_binary(), "copy", self.server.iscsi(self.variant.volume) + options, f"file:{out}?size={SIZE}", "--overwrite")
        else:
            command(linerate_binary(), "copy", self.server.nvme(self.variant.volume), f"file:{out}?size={SIZE}", "--overwrite")
        return out.read_bytes()

    def demand(self, content):
        """The volume holds exactly this content."""
        back = self.read_back()
        if back != content:
            at = next((at for at, (one, two) in enumerate(zip(back, content)) if one != two), min(len(back), len(content)))
            raise RuntimeError(f"differs at byte {at} of {len(content)} ({len(back)} read)")

    def convert(self, image, raw):
        """An image written by convert, compared by QEMU, and read back by us."""
        target = ("--target-image-opts", "-n")
        command("qemu-img", "convert", *self.secret, *target, "-f", "qcow2", image, self.image)
        compared = command("qemu-img", "compare", *self.secret, *self.options, self.image, f"driver=qcow2,file.filename={image}")
        if "identical" not in compared:
            raise RuntimeError(compared)
        self.demand(raw.read_bytes())

    def patterns(self):
        """Writes of many kinds and lengths, mirrored in memory."""
        model = bytearray(SIZE)
        source = random.Random(f"patterns {self.variant.name}")
        steps = [f"write -z 0 {SIZE}"]
        for number in range(60):
            length = source.choice((512, 4096, 4096 + 512, 65536, 262144 + 1536, 2 * MIB))
            at = source.randrange(0, (SIZE - length) // 512) * 512
            kind = source.choice(("write -P", "write -f -P", "aio_write -P", "writev -P", "write -z", "write -zu", "discard"))
            pattern = 0 if "-z" in kind or kind == "discard" else source.randrange(1, 256)
            steps.append(f"{kind} {pattern} {at} {length}" if kind.endswith("-P") else f"{kind} {at} {length}")
            steps.append("aio_flush" if kind.startswith("aio") or number % 7 == 0 else "flush")
            if kind == "discard":  # may or may not read as zeroes, so it is settled by a write
                steps.append(f"write -P 85 {at} {length}")
                pattern = 85
            model[at : at + length] = bytes([pattern]) * length
        self.io(*steps, "flush")
        self.demand(bytes(model))

    def verify(self):
        """qemu-io reads its own patterns back, and a planted wrong pattern is noticed."""
        self.io("write -P 17 1M 3M", "write -P 34 1536 512", "read -P 17 1M 3M", "read -P 34 1536 512", "readv -P 17 2M 512 4096")
        try:
            self.io("read -P 18 1M 512")
        except RuntimeError:
            return
        raise RuntimeError("a wrong pattern was read without complaint")

    def queue(self):
        """Many overlapping-free requests in flight at once."""
        writes = [f"aio_write -P {1 + n} {n * 65536} 65536" for n in range(128)]
        reads = [f"aio_read -P {1 + n} {n * 65536} 65536" for n in range(128)]
        self.io(*writes, "aio_flush", *reads, "aio_flush")

    def beyond(self):
        """I/O beyond the end is refused, and the volume still answers."""
        command("qemu-io", *self.secret, *self.options, "-c", f"read {SIZE} 512", self.image, succeeds=False)
        self.io("read 0 512")

    def refused(self):
        """A wrong secret does not get in."""
        wrong = ("--object", "secret,id=chap,data=another-secret-of-21")
        command("qemu-io", *wrong, *self.options, "-c", "read 0 512", self.image, succeeds=False)

    def run(self, account, content):
        """All tests of this variant."""
        tests = {"convert": lambda: self.convert(*content), "patterns": self.patterns, "verify": self.verify, "queue": self.queue,
                 "beyond the end": self.beyond}
        if self.variant.chap:
            tests["wrong secret"] = self.refused
        for name, test in tests.items():
            with account.test(f"{self.variant.name}: {name}"):
                test()


def configuration(folder):
    """Open and guarded volumes of both kinds. The open ones are for everybody on loopback."""
    lines = []
    for protocol in ("iscsi", "nvme"):
        lines += ["[[portal]]", f'protocol = "{protocol}"', 'listen = "127.0.0.1:0"']
    for name in ("ram", "file", "ram-chap", "file-chap"):
        url = f"ram:{SIZE}" if name.startswith("ram") else f"file:{folder}/{name}.img?size={SIZE}"
        lines += ["[[volume]]", f'name = "{name}"', f'url = "{url}"']
        if name.endswith("chap"):
            lines += ["[[access]]", f'volume = "{name}"', f'chap = {{ user = "{USER}", secret_file = "{folder}/chap-secret" }}']
    return "\n".join(lines) + "\n"


def variants(peer):
    """Every kind of volume in every way."""
    if peer:
        return [Variant("tgt", "disk"), Variant("tgt, digest", "disk", digest=True)]
    ways = (("", False, False), (", digest", False, True), (", CHAP", True, False), (", CHAP and digest", True, True))
    return [
        Variant(f"{kind}{words}", f"{kind}-chap" if chap else kind, chap, digest)
        for kind in ("ram", "file")
        for words, chap, digest in ways
    ]


def main():
    """Parses the command line and runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--driver", default="auto", choices=("auto", "uring", "epoll"))
    parser.add_argument("--peer", choices=("tgt",))
    arguments = parser.parse_args()
    account = Account("qemu")
    with temporary_folder() as name:
        folder = Path(name)
        secret(folder)
        content = make_image(folder)
        with Tgt(folder, SIZE) if arguments.peer else Linerate(folder, driver=arguments.driver, config=configuration(folder)) as server:
            for variant in variants(arguments.peer):
                Tests(server, variant, folder).run(account, content)
    return account.close()


if __name__ == "__main__":
    sys.exit(main())
