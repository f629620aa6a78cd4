#!/usr/bin/env python3
"""NFS 3 by libnfs' tools: folders are listed, and files copied in and out, and what they say is what the folder has.

`nfs-ls`, `nfs-cp` and `nfs-cat` speak version 3 with their own MOUNT, and no port mapper where the URL has the ports. `docs/howto/nfs.md` is true as far as it needs no
mount: its commands are run as they stand there, its configuration is served. What it says of mounting, Linux' own client does in the virtual machine (`conformance/vm/guest/nfs.sh`,
`nfs_restart.sh`), and of files as volumes `crates/cli/tests/nfs_volume.rs`.

    run.py                  a Linerate of its own
    run.py --driver epoll   the reactor's loop for machines without io_uring
    run.py --test copies    tests whose name has this
"""
import argparse
import hashlib
import os
import random
import re
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent))
from harness import Account, Linerate, mounted, temporary_folder  # noqa: E402

PAGE = ROOT / "docs/howto/nfs.md"
# Commands of the page that the virtual machine is for: they need the kernel's client, and root.
OF_THE_KERNEL = "mount "
# Seconds for one command.
TIME_LIMIT = 60
# From this section on, crates/cli/tests/nfs_volume.rs follows the page.
CLIENT = "\n## What a folder holds\n"
# Files of the long listing: several answers of READDIRPLUS.
ENTRIES = 3000
# Bytes of files: none, less than a word of XDR, around a page, around the largest transfer, several of them.
SIZES = (0, 1, 3, 4095, 4097, (1 << 20) - 1, 1 << 20, (1 << 20) + 5, (20 << 20) + 13)
# Copies at a time.
PARALLEL = 8
LINKED = b"what a symbolic link leads to"


def content(size, seed=0):
    """Bytes that no other size or seed has."""
    return random.Random(f"{size} {seed}").randbytes(size)


def checksum(data):
    """SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def demand(found, wanted, what):
    """Fails unless both are the same."""
    if found != wanted:
        raise RuntimeError(f"{what}: {str(found)[:200]}, wanted {str(wanted)[:200]}")


def run(*words, fails_with=None):
    """Runs a tool and gives what it printed, as bytes; with `fails_with` it has to fail, and to say that."""
    done = subprocess.run([str(word) for word in words], capture_output=True, timeout=TIME_LIMIT)
    said = (done.stdout[-2000:] + done.stderr[-2000:]).decode(errors="replace")
    if fails_with is None:
        # Some of libnfs' tools end with 0 when they failed, but say so.
        if done.returncode != 0 or b"ailed" in done.stderr:
            raise RuntimeError(f"{words[0]} ended with {done.returncode}\n{' '.join(map(str, words))}\n{said}")
    elif fails_with not in said:
        raise RuntimeError(f"{words[0]} did not fail with {fails_with}\n{' '.join(map(str, words))}\n{said}")
    return done.stdout


class Listed:
    """A line of `nfs-ls`: mode, links, owner, group, bytes, name."""

    def __init__(self, line):
        words = line.split(maxsplit=5)
        self.mode, self.owner, self.size, self.name = words[0], (int(words[2]), int(words[3])), int(words[4]), words[5]
        self.links = int(words[1])

    def compare(self, path):
        """Fails unless the line says what the file system says."""
        told = os.lstat(path)
        # Of the mode nfs-ls has the last nine bits, and it has a letter for folders, links and files alone.
        mode = stat.filemode(stat.S_IFMT(told.st_mode) | told.st_mode & 0o777)
        demand(self.mode, mode if mode[0] in "dl-" else mode[1:], f"the mode of {self.name}")
        demand((self.links, self.size), (told.st_nlink, told.st_size), f"links and size of {self.name}")
        demand(self.owner, (told.st_uid, told.st_gid), f"owner and group of {self.name}")


def listing(url, *options):
    """The lines of `nfs-ls`, by name."""
    lines = [Listed(line) for line in run("nfs-ls", *options, url).decode().splitlines()]
    names = [line.name for line in lines]
    if len(set(names)) != len(names):
        raise RuntimeError("a name was listed twice")
    return {line.name: line for line in lines}


class Tests:
    """What the tools do with three shares: one for all, one that can only be read, and one that is closed to this machine."""

    def __init__(self, server, folder):
        self.server, self.folder = server, folder

    def copies_of_every_size(self):
        """Files go in and come out with the same bytes, by `nfs-cp` and `nfs-cat`."""
        for size in SIZES:
            name, data = f"size-{size}", content(size)
            local, back = self.folder / "local", self.folder / "back"
            local.write_bytes(data)
            run("nfs-cp", local, self.server.nfs("files", name))
            demand(checksum((self.folder / "files" / name).read_bytes()), checksum(data), f"what {size} bytes became in the folder")
            back.unlink(missing_ok=True)
            run("nfs-cp", self.server.nfs("files", name), back)
            demand(checksum(back.read_bytes()), checksum(data), f"what {size} bytes came back as")
            demand(checksum(run("nfs-cat", self.server.nfs("files", name))), checksum(data), f"what nfs-cat printed of {size} bytes")
            listing(self.server.nfs("files"))[name].compare(self.folder / "files" / name)

    def a_file_that_is_there_stays(self):
        """nfs-cp creates in GUARDED mode, so nothing is written over."""
        local, there = self.folder / "local", self.folder / "files/there"
        local.write_bytes(b"new")
        there.write_bytes(b"old")
        run("nfs-cp", local, self.server.nfs("files", "there"), fails_with="NFS3ERR_EXIST")
        demand(there.read_bytes(), b"old", "the file that was there")

    def copies_at_a_time(self):
        """Many connections, each with a file of its own, in and out, and one file that all read."""
        def copy(number):
            local, back = self.folder / f"local-{number}", self.folder / f"back-{number}"
            local.write_bytes(content(2 << 20, number))
            for turn in range(3):
                back.unlink(missing_ok=True)
                run("nfs-cp", local, self.server.nfs("files", f"parallel-{number}-{turn}"))
                run("nfs-cp", self.server.nfs("files", f"parallel-{number}-{turn}"), back)
                demand(checksum(back.read_bytes()), checksum(content(2 << 20, number)), f"file {number}")
                demand(checksum(run("nfs-cat", self.server.nfs("fixed", "shared"))), checksum(content(5 << 20)), "the file of all")
        with ThreadPoolExecutor(PARALLEL) as copies:
            list(copies.map(copy, range(PARALLEL)))

    def what_the_folder_changes_is_seen(self):
        """A file that local processes write, cut and take away."""
        path = self.folder / "files/local"
        for size in (100, 200_000, 7):
            path.write_bytes(content(size))
            demand(checksum(run("nfs-cat", self.server.nfs("files", "local"))), checksum(content(size)), f"{size} bytes that were written in the folder")
        path.unlink()
        run("nfs-cat", self.server.nfs("files", "local"), fails_with="NFS3ERR_NOENT")

    def a_long_folder_is_listed(self):
        """Each name once, with its attributes."""
        found = listing(self.server.nfs("fixed", "many"))
        demand(sorted(set(found)), sorted(os.listdir(self.folder / "fixed/many")), "the names")
        for name in list(found)[:: ENTRIES // 100]:
            found[name].compare(self.folder / "fixed/many" / name)

    def every_kind_is_told(self):
        """Attributes of a file, a folder, a symbolic link, a FIFO, with odd modes and other owners."""
        found = listing(self.server.nfs("fixed", "kinds"))
        demand(sorted(found), sorted(os.listdir(self.folder / "fixed/kinds")), "the names")
        for name, line in found.items():
            line.compare(self.folder / "fixed/kinds" / name)

    def folders_are_walked(self):
        """`nfs-ls -R` looks up each folder beneath."""
        found = [line.split(maxsplit=5)[5] for line in run("nfs-ls", "-R", self.server.nfs("fixed", "deep")).decode().splitlines()]
        wanted = [name for _, folders, files in os.walk(self.folder / "fixed/deep") for name in (*folders, *files)]
        demand(sorted(Path(name).name for name in found), sorted(wanted), "the names")

    def links_are_followed(self):
        """A client follows symbolic links itself."""
        demand(run("nfs-cat", self.server.nfs("fixed", "kinds/link")), LINKED, "what the link leads to")
        run("nfs-cat", self.server.nfs("fixed", "kinds/out"), fails_with="invalid path")

    def names_of_all_kinds(self):
        """Spaces, bytes beyond ASCII, the longest."""
        for name in ("two words", "größer", "日本語", "n" * 255):
            local = self.folder / "local"
            local.write_bytes(name.encode())
            run("nfs-cp", local, self.server.nfs("files", name))
            demand((self.folder / "files" / name).read_bytes(), name.encode(), "the file")
            demand(run("nfs-cat", self.server.nfs("files", name)), name.encode(), "what nfs-cat printed")
        if "two words" not in listing(self.server.nfs("files")):
            raise RuntimeError("two words is not listed")

    def a_folder_within_a_share_is_mounted(self):
        """MNT of a path beneath the share."""
        run("nfs-ls", self.server.nfs("fixed/deep/0"))
        demand(sorted(listing(self.server.nfs("fixed/many"))), sorted(os.listdir(self.folder / "fixed/many")), "the names")

    def what_is_refused_is_told(self):
        """Errors reach the tool by their names in the standard."""
        local = self.folder / "local"
        local.write_bytes(b"x")
        run("nfs-cat", self.server.nfs("files", "nothing"), fails_with="NFS3ERR_NOENT")
        run("nfs-ls", self.server.nfs("nowhere"), fails_with="MNT3ERR_NOENT")
        run("nfs-ls", self.server.nfs("closed"), fails_with="MNT3ERR_")
        run("nfs-cp", local, self.server.nfs("fixed", "new"), fails_with="NFS3ERR_ROFS")
        run("nfs-cp", local, self.server.nfs("fixed", "shared"), fails_with="NFS3ERR_ROFS")
        run("nfs-cp", local, self.server.nfs("files", "n" * 256), fails_with="NFS3ERR_NAMETOOLONG")
        demand((self.folder / "fixed/shared").read_bytes(), content(5 << 20), "what can only be read")

    def all(self):
        """The tests, by name."""
        return [(name, getattr(self, name)) for name, method in vars(Tests).items() if callable(method) and name not in ("__init__", "all")]


def what_is_mounted_stays_outside(folder, driver):
    """What is mounted within a folder, also from the same file system, is no part of it: its name is listed with nothing of what it leads to, which is refused."""
    for name in ("served/door", "outside"):
        (folder / name).mkdir(parents=True)
    (folder / "outside/secret").write_bytes(b"secret")
    (folder / "served/file").write_bytes(b"open")
    # Its time of change is no longer the present: entries are seen without being opened.
    time.sleep(0.1)
    with mounted('mount --bind "$1" "$2"', folder / "outside", folder / "served/door") as root:
        share = f"files=dir:{root}{folder}/served"
        with Linerate(folder, [share], driver=driver) as server:
            url = server.nfs("files")
            lines = listing(url)
            demand((sorted(lines), lines["file"].size), (["door", "file"], 4), "the names")
            demand((lines["door"].mode, lines["door"].links), ("---------", 0), "what is told of the mount")
            run("nfs-ls", server.nfs("files/door"), fails_with="MNT3ERR_ACCES")
            run("nfs-cat", server.nfs("files", "door/secret"), fails_with="MNT3ERR_ACCES")


def blocks(language):
    """The page's blocks of code in a language, before the sections that Linerate's client is in."""
    folders, _, _ = PAGE.read_text().partition(CLIENT)
    return re.findall(rf"^```{language}\n(.*?)^```$", folders, re.MULTILINE | re.DOTALL)


def follow_the_page(folder, driver):
    """The page's commands, in their order, against the server that its first one starts."""
    serve, *commands = "".join(blocks("sh")).splitlines()
    demand(serve, "linerate serve files=dir:/srv/files --nfs 127.0.0.1:2049", "the first command")
    (folder / "files").mkdir()
    (folder / "files").chmod(0o777)
    folder.chmod(0o755)
    own = [command for command in commands if not command.startswith(OF_THE_KERNEL)]
    if len(own) < 4:
        raise RuntimeError(f"the page has only these commands: {own}")
    with Linerate(folder, [f"files=dir:{folder}/files"], driver=driver) as server:
        port = server.portals["nfs"].strip().rsplit(":", 1)[1]
        script = "\n".join(own).replace("2049", port)
        printed = run("sh", "-e", "-c", f"cd {folder}\n{script}").decode()
    if " note.txt\n" not in printed or not printed.endswith("from here\n"):
        raise RuntimeError(f"the commands printed\n{printed}")
    demand((folder / "files/note.txt").read_text(), "from here\n", "the file")


def serve_the_page(folder, driver):
    """The page's configuration, with folders and an address of this machine."""
    (config,) = blocks("toml")
    for name in ("files", "archive"):
        (folder / name).mkdir()
    config = config.replace("/srv/", f"{folder}/").replace("192.0.2.1:2049", "127.0.0.1:0").replace("192.0.2.0/24", "127.0.0.0/8")
    with Linerate(folder, driver=driver, config=config) as server:
        demand((listing(server.nfs("files")), listing(server.nfs("archive"))), ({}, {}), "the folders")


def prepare(folder):
    """The folders that are served."""
    for name in ("files", "fixed", "closed"):
        (folder / name).mkdir()
    # Whoever the server is to whoever asks: root of a client is nobody.
    folder.chmod(0o755)
    (folder / "files").chmod(0o777)
    fixed = folder / "fixed"
    (fixed / "shared").write_bytes(content(5 << 20))
    (fixed / "many").mkdir()
    for number in range(ENTRIES):
        (fixed / "many" / f"entry-{number:05}-{'x' * (number % 100)}").write_bytes(bytes(number % 7))
    kinds = fixed / "kinds"
    kinds.mkdir()
    (kinds / "folder").mkdir(mode=0o1777)
    (kinds / "linked").write_bytes(LINKED)
    (kinds / "link").symlink_to("linked")
    # The server tells where links lead, and follows none itself.
    (kinds / "out").symlink_to("../../../etc/passwd")
    os.mkfifo(kinds / "fifo", 0o622)
    for mode in (0o000, 0o400, 0o644, 0o755, 0o4711, 0o2770):
        path = kinds / f"mode-{mode:o}"
        path.write_bytes(bytes(mode))
        path.chmod(mode)
    os.link(kinds / "mode-644", kinds / "second name")
    if os.geteuid() == 0:
        os.chown(kinds / "mode-755", 1234, 4321)
    for number in range(4):
        (fixed / "deep" / str(number) / "deeper" / "deepest").mkdir(parents=True)
        (fixed / "deep" / str(number) / "deeper" / f"file-{number}").write_bytes(b"x")


def configuration(folder):
    """One share for all, one that can only be read, one that no network of this machine may see."""
    lines = ["[[portal]]", 'protocol = "nfs"', 'listen = "127.0.0.1:0"']
    for name, more in (("files", ""), ("fixed", ""), ("closed", 'clients = ["192.0.2.1/32"]')):
        options = "?readonly=1" if name == "fixed" else ""
        lines += ["[[share]]", f'name = "{name}"', f'url = "dir:{folder / name}{options}"', more]
    return "\n".join(lines) + "\n"


def main():
    """Parses the command line and runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--driver", default="auto", choices=("auto", "uring", "epoll"))
    parser.add_argument("--test", default="", help="only tests whose name has this")
    arguments = parser.parse_args()
    account = Account("nfs")
    with temporary_folder() as name:
        folder = Path(name)
        prepare(folder)
        with Linerate(folder, driver=arguments.driver, config=configuration(folder)) as server:
            for name, test in Tests(server, folder).all():
                words = name.replace("_", " ")
                if arguments.test in words:
                    with account.test(words):
                        test()
    for name, test in (
        ("what is mounted stays outside", what_is_mounted_stays_outside),
        ("the commands of the page", follow_the_page),
        ("the configuration of the page", serve_the_page),
    ):
        if arguments.test in name:
            with account.test(name), temporary_folder() as folder:
                test(Path(folder), arguments.driver)
    return account.close()


if __name__ == "__main__":
    sys.exit(main())
