#!/usr/bin/env python3
"""`nfs://` volumes on servers: nfs-ganesha, which nobody here wrote, and Linerate's own.

The volume contract's suite, copies that are compared byte for byte through the server's own file, servers that are killed and started again under load, and what users
read when something is wrong. Ganesha serves a folder of its own on a free port of loopback, without rpcbind.
"""
import argparse
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent))
from harness import Account, Linerate, linerate_binary, temporary_folder  # noqa: E402
from harness.servers import STOP_SECONDS, free_port, wait_until  # noqa: E402

ROOT = HERE.parents[1]
SIZE = 24 << 20
TIME_LIMIT = 600


def contract(url):
    """Runs the volume contract's suite on a volume; its words are the failure's."""
    program = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug" / "examples" / "contract"
    if not program.exists():
        sys.exit(f"{program} is not there: `cargo build -p linerate --example contract` builds it")
    done = subprocess.run([program, url], capture_output=True, text=True, timeout=TIME_LIMIT)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"the suite ended with {done.returncode}")


def linerate(*words, status=0):
    """Runs a command and gives what it says."""
    done = subprocess.run([linerate_binary(), *map(str, words)], capture_output=True, text=True, timeout=TIME_LIMIT)
    if done.returncode != status:
        raise RuntimeError(f"{words[0]} ended with {done.returncode}, not {status}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


class Ganesha:
    """nfs-ganesha with one export, `/export`, as a `with` block."""

    def __init__(self, folder, minors="1, 2"):
        self.folder = Path(folder)
        self.files = self.folder / "files"
        for part in (self.files, self.folder / "recovery"):
            part.mkdir(exist_ok=True)
        self.log = self.folder / "ganesha.log"
        self.port = free_port()
        self.configuration = self.folder / "ganesha.conf"
        self.configuration.write_text(
            f"NFS_CORE_PARAM {{ Protocols = 4; NFS_Port = {self.port}; Bind_addr = 127.0.0.1; Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; }}\n"
            f'NFSv4 {{ Minor_Versions = {minors}; Grace_Period = 5; Lease_Lifetime = 5; RecoveryBackend = fs; RecoveryRoot = "{self.folder}/recovery"; }}\n'
            f'EXPORT {{ Export_Id = 1; Path = "{self.files}"; Pseudo = "/export"; Protocols = 4; Transports = TCP; Access_Type = RW; Squash = No_Root_Squash; '
            "SecType = sys; FSAL { Name = VFS; } }\n"
            'EXPORT { Export_Id = 2; Path = "%s"; Pseudo = "/readonly"; Protocols = 4; Transports = TCP; Access_Type = RO; Squash = No_Root_Squash; '
            "SecType = sys; FSAL { Name = VFS; } }\n"
            "LOG { Default_Log_Level = EVENT; }\n" % self.files)
        self.start()

    def start(self):
        """Starts it under its port."""
        words = ["ganesha.nfsd", "-F", "-f", self.configuration, "-L", self.log, "-p", self.folder / "ganesha.pid"]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.log.touch()
        wait_until(self.listens, self.process, self.log)

    def listens(self):
        """True once somebody can connect."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self):
        """Ends it at once, by its process id."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(STOP_SECONDS)

    def file(self, name, size=SIZE):
        """A file of zeros that it serves."""
        path = self.files / name
        with path.open("wb") as image:
            image.truncate(size)
        return path

    def url(self, name, export="export", options=""):
        """The file's URL."""
        return f"nfs://127.0.0.1:{self.port}/{export}/{name}{options}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()


class Own(Linerate):
    """Linerate serving a folder as `/files`."""

    def __init__(self, folder, driver="auto"):
        self.files = Path(folder) / "files"
        self.files.mkdir(exist_ok=True)
        text = f'[[portal]]\nprotocol = "nfs"\nlisten = "127.0.0.1:0"\n\n[[portal]]\nprotocol = "nfs"\ntransport = "iwarp"\nlisten = "127.0.0.1:0"\n\n[[share]]\nname = "files"\nurl = "dir:{self.files}"\nsquash = "none"\n'
        super().__init__(folder, driver=driver, config=text)

    def file(self, name, size=SIZE):
        """A file of zeros that it serves."""
        path = self.files / name
        with path.open("wb") as image:
            image.truncate(size)
        return path

    def url(self, name, options=""):
        """The file's URL."""
        return f"nfs://{self.portals['nfs'].strip()}/files/{name}{options}"

    def over_rdma(self, name, options=""):
        """The same over software iWARP."""
        return f"nfs+rdma://{self.portals['nfs-rdma'].strip()}/files/{name}{options}"


def noise(folder):
    """A file of bytes that repeat nowhere."""
    path = Path(folder) / "noise"
    path.write_bytes(os.urandom(SIZE))
    return path


def tests(folder):
    """Names, and what to do."""
    def place(name):
        path = Path(folder) / name.replace(" ", "-")
        path.mkdir()
        return path

    def ganesha_contract(version):
        with Ganesha(place(f"contract-{version}")) as server:
            server.file("disk.img")
            contract(server.url("disk.img", options=f"?version={version}"))

    def own_contract(options, driver):
        with Own(place(f"own{options}{driver}".replace("?", "-")), driver) as server:
            server.file("disk.img")
            contract(server.url("disk.img", options))

    def rdma_contract(options):
        with Own(place(f"rdma{options}".replace("?", "-"))) as server:
            server.file("disk.img")
            contract(server.over_rdma("disk.img", options))

    def falls_back():
        with Ganesha(place("falls-back"), minors="1") as server:
            server.file("disk.img")
            said = linerate("inspect", server.url("disk.img"))
            if "4.1" not in said:
                raise RuntimeError(said)
            said = linerate("inspect", server.url("disk.img", options="?version=4.2"), status=1)
            if "MINOR_VERS_MISMATCH" not in said:
                raise RuntimeError(said)

    def copies(make):
        path = place(f"copies-{make.__name__}")
        with make(path) as server:
            source, served = noise(path), server.file("disk.img")
            url = server.url("disk.img")
            linerate("copy", "--overwrite", f"file:{source}", url)
            if served.read_bytes() != source.read_bytes():
                raise RuntimeError("the server's file is not what was copied to it")
            linerate("copy", url, f"file:{path}/back.img")
            if (path / "back.img").read_bytes() != source.read_bytes():
                raise RuntimeError("what was copied back is not what was copied")
            linerate("zero", "--overwrite", url)
            if any(served.read_bytes()):
                raise RuntimeError("the server's file is not zeros")

    def gateway():
        # A file at a server, served over iSCSI and NVMe/TCP.
        path = place("gateway")
        with Ganesha(path) as server:
            source, served = noise(path), server.file("disk.img")
            front = path / "front"
            front.mkdir()
            with Linerate(front, (f"disk={server.url('disk.img')}",)) as portal:
                contract(portal.nvme("disk"))
                linerate("copy", "--overwrite", f"file:{source}", portal.iscsi("disk"))
                if served.read_bytes() != source.read_bytes():
                    raise RuntimeError("the server's file is not what was copied through the gateway")

    def restarts():
        # A server that is killed in the middle of a copy, three times: it has the data in the page cache, and every byte arrives.
        path = place("restarts")
        with Ganesha(path) as server:
            source, served = noise(path), server.file("disk.img")
            over = threading.Event()

            def kill():
                for _ in range(3):
                    if over.wait(1.0):
                        return
                    server.kill()
                    server.start()

            killer = threading.Thread(target=kill)
            killer.start()
            try:
                url = server.url("disk.img", options="?reconnect=60s&timeout=60s")
                linerate("bench", url, "--rw", "randwrite", "--bs", "64k", "--qd", "16", "--runtime", "6", "--overwrite")
                linerate("copy", "--overwrite", f"file:{source}", url)
            finally:
                over.set()
                killer.join()
            if served.read_bytes() != source.read_bytes():
                raise RuntimeError("the server's file is not what was copied to it")

    def readers():
        with Ganesha(place("readers")) as server:
            server.file("disk.img")
            said = linerate("inspect", server.url("disk.img", "readonly"), status=1)
            if "readonly+" not in said:
                raise RuntimeError(said)
            linerate("inspect", "readonly+" + server.url("disk.img", "readonly"))

    def exclusive():
        with Ganesha(place("exclusive")) as server:
            served = server.file("disk.img")
            bench = subprocess.Popen(
                [linerate_binary(), "bench", server.url("disk.img", options="?exclusive=1"), "--rw", "randread", "--runtime", "8", "--json"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            try:
                wait_until(lambda: True, bench, server.log)
                for _ in range(50):
                    done = subprocess.run([linerate_binary(), "inspect", server.url("disk.img")], capture_output=True, text=True, timeout=TIME_LIMIT)
                    if done.returncode != 0:
                        break
                else:
                    raise RuntimeError("another client has opened what is opened exclusively")
                if "SHARE_DENIED" not in done.stderr:
                    raise RuntimeError(done.stderr)
            finally:
                words = bench.communicate(timeout=TIME_LIMIT)
            if bench.returncode != 0 or served.stat().st_size != SIZE:
                raise RuntimeError("".join(words))

    def wrong():
        with Ganesha(place("wrong")) as server:
            server.file("disk.img")
            server.file("odd.img", 1000)
            server.file("empty.img", 0)
            (server.files / "folder").mkdir()
            (server.files / "link.img").symlink_to("disk.img")
            for url, word in ((server.url("none.img"), "NFS4ERR_NOENT"), (server.url("disk.img", "nowhere"), "exports below /"),
                              (server.url("folder"), "directory"), (server.url("link.img"), "symbolic link"), (server.url("odd.img"), "whole number"),
                              (server.url("empty.img"), "size="), (server.url("disk.img/deeper"), "no directory"),
                              (server.url("disk.img", options="?uid=4711&gid=4711"), "uid=")):
                said = linerate("inspect", url, status=1)
                if word not in said:
                    raise RuntimeError(f"{url} says: {said}")
            grown = server.url("empty.img", options="?size=1M")
            if "1048576" not in linerate("inspect", "--json", grown):
                raise RuntimeError("the file did not grow")

    for version in ("4.1", "4.2"):
        yield f"ganesha, contract, {version}", lambda version=version: ganesha_contract(version)
    for options in ("", "?version=4.1", "?block=4096"):
        yield f"linerate, contract{options}", lambda options=options: own_contract(options, "auto")
    yield "linerate, contract, on epoll", lambda: own_contract("", "epoll")
    for options in ("", "?version=4.1&crc=1"):
        yield f"linerate, contract over iWARP{options}", lambda options=options: rdma_contract(options)
    yield "ganesha without 4.2", falls_back
    for make in (Ganesha, Own):
        yield f"{make.__name__.lower()}, copies", lambda make=make: copies(make)
    yield "ganesha, served over iSCSI and NVMe/TCP", gateway
    yield "ganesha is killed", restarts
    yield "ganesha, read-only export", readers
    yield "ganesha, exclusive", exclusive
    yield "ganesha, what is wrong", wrong


def main():
    """Runs the tests."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--test", default="", metavar="PART", help="only tests whose name has this")
    wanted = parser.parse_args().test
    account = Account("nfs_client")
    with temporary_folder() as folder:
        for name, run in tests(folder):
            if wanted in name:
                with account.test(name):
                    run()
    return account.close()


if __name__ == "__main__":
    sys.exit(main())
