#!/usr/bin/env python3
"""`nfs://` volumes on servers: nfs-ganesha, which nobody here wrote, and Linerate's own.

The volume contract's suite, copies that are compared byte for byte through the server's own file, servers that are killed and started again under load, and what users
read when something is wrong. Ganesha serves a folder of its own on a free port of loopback, without rpcbind. In version 3 it does not start without one: so it has a network of its own, with a
port mapper in it, and clients go there.
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
MOUNT_PORT = 20048
TIME_LIMIT = 600


def contract(url, within=()):
    """Runs the volume contract's suite on a volume; its words are the failure's."""
    program = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug" / "examples" / "contract"
    if not program.exists():
        sys.exit(f"{program} is not there: `cargo build -p linerate --example contract` builds it")
    done = subprocess.run([*within, program, url], capture_output=True, text=True, timeout=TIME_LIMIT)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"the suite ended with {done.returncode}")


def linerate(*words, status=0, within=()):
    """Runs a command and gives what it says."""
    done = subprocess.run([*within, linerate_binary(), *map(str, words)], capture_output=True, text=True, timeout=TIME_LIMIT)
    if done.returncode != status:
        raise RuntimeError(f"{words[0]} ended with {done.returncode}, not {status}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


class Ganesha:
    """nfs-ganesha with one export, `/export`, as a `with` block."""

    # What runs a client where the server can be reached.
    within = ()

    def __init__(self, folder, minors="1, 2", protocols="4", core=""):
        self.folder = Path(folder)
        self.files = self.folder / "files"
        for part in (self.files, self.folder / "recovery"):
            part.mkdir(exist_ok=True)
        self.log = self.folder / "ganesha.log"
        self.port = self.choose_port()
        self.configuration = self.folder / "ganesha.conf"
        self.configuration.write_text(
            f"NFS_CORE_PARAM {{ Protocols = {protocols}; {core}NFS_Port = {self.port}; Bind_addr = 127.0.0.1; Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; }}\n"
            f'NFSv4 {{ Minor_Versions = {minors}; Grace_Period = 5; Lease_Lifetime = 5; RecoveryBackend = fs; RecoveryRoot = "{self.folder}/recovery"; }}\n'
            f'EXPORT {{ Export_Id = 1; Path = "{self.files}"; Pseudo = "/export"; Protocols = {protocols}; Transports = TCP; Access_Type = RW; Squash = No_Root_Squash; '
            "SecType = sys; FSAL { Name = VFS; } }\n"
            'EXPORT { Export_Id = 2; Path = "%s"; Pseudo = "/readonly"; Protocols = %s; Transports = TCP; Access_Type = RO; Squash = No_Root_Squash; '
            "SecType = sys; FSAL { Name = VFS; } }\n"
            "LOG { Default_Log_Level = EVENT; }\n" % (self.files, protocols))
        self.start()

    def choose_port(self):
        """A port that nobody has."""
        return free_port()

    def start(self):
        """Starts it under its port."""
        words = [*self.within, "ganesha.nfsd", "-F", "-f", self.configuration, "-L", self.log, "-p", self.folder / "ganesha.pid"]
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


class Ganesha3(Ganesha):
    """The same with version 3, in a network of its own with a port mapper."""

    def __init__(self, folder):
        # Ganesha reads addresses with AI_ADDRCONFIG: it finds none where there is no address beyond loopback.
        script = "mount -t tmpfs none /run && ip link set lo up && ip address add 192.0.2.1/32 dev lo && exec rpcbind -f"
        self.mapper = subprocess.Popen(["unshare", "--net", "--mount", "sh", "-c", script], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.within = ("nsenter", f"--target={self.mapper.pid}", "--net", "--mount")
        try:
            log = Path(folder) / "rpcbind.log"
            log.touch()
            wait_until(lambda: subprocess.run([*self.within, "rpcinfo"], capture_output=True, timeout=TIME_LIMIT).returncode == 0, self.mapper, log)
            super().__init__(folder, protocols="3, 4", core=f"MNT_Port = {MOUNT_PORT}; mount_path_pseudo = true; ")
        except BaseException:
            self.end_mapper()
            raise

    def choose_port(self):
        """NFS' own: nobody else is there."""
        return 2049

    def listens(self):
        """True once somebody can connect to both of its ports."""
        probe = "import socket, sys; s = socket.socket(); sys.exit(s.connect_ex(('127.0.0.1', int(sys.argv[1]))) != 0)"
        words = [*self.within, sys.executable, "-c", probe]
        return all(subprocess.run([*words, str(port)], timeout=TIME_LIMIT).returncode == 0 for port in (self.port, MOUNT_PORT))

    def url(self, name, export="export", options=f"?version=3&mountport={MOUNT_PORT}"):
        """The file's URL."""
        return super().url(name, export, options)

    def end_mapper(self):
        """Ends the port mapper, by its process id."""
        self.mapper.kill()
        self.mapper.wait(STOP_SECONDS)

    def __exit__(self, *_):
        super().__exit__()
        self.end_mapper()


class Own(Linerate):
    """Linerate serving a folder as `/files`."""

    def __init__(self, folder, driver="auto"):
        self.within = ()
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
        """The same over software iWARP; MOUNT is at the portal of TCP."""
        options = options.replace("MOUNTPORT", self.portals["nfs"].strip().rpartition(":")[2])
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

    def ganesha3_contract():
        with Ganesha3(place("contract-3")) as server:
            server.file("disk.img")
            contract(server.url("disk.img"), server.within)

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
            within = server.within
            linerate("copy", "--overwrite", f"file:{source}", url, within=within)
            if served.read_bytes() != source.read_bytes():
                raise RuntimeError("the server's file is not what was copied to it")
            linerate("copy", url, f"file:{path}/back.img", within=within)
            if (path / "back.img").read_bytes() != source.read_bytes():
                raise RuntimeError("what was copied back is not what was copied")
            linerate("zero", "--overwrite", url, within=within)
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

    def restarts(make):
        # A server that is killed in the middle of a copy, three times: it has the data in the page cache, and every byte arrives.
        path = place(f"restarts-{make.__name__}")
        with make(path) as server:
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
                url = server.url("disk.img")
                url += ("&" if "?" in url else "?") + "reconnect=60s&timeout=60s"
                linerate("bench", url, "--rw", "randwrite", "--bs", "64k", "--qd", "16", "--runtime", "6", "--overwrite", within=server.within)
                linerate("copy", "--overwrite", f"file:{source}", url, within=server.within)
            finally:
                over.set()
                killer.join()
            if served.read_bytes() != source.read_bytes():
                raise RuntimeError("the server's file is not what was copied to it")

    def readers(make):
        with make(place(f"readers-{make.__name__}")) as server:
            server.file("disk.img")
            said = linerate("inspect", server.url("disk.img", "readonly"), status=1, within=server.within)
            if "readonly+" not in said:
                raise RuntimeError(said)
            linerate("inspect", "readonly+" + server.url("disk.img", "readonly"), within=server.within)

    def wrong3():
        with Ganesha3(place("wrong-3")) as server:
            server.file("disk.img")
            server.file("empty.img", 0)
            (server.files / "folder").mkdir()
            (server.files / "link.img").symlink_to("disk.img")
            for url, word in ((server.url("none.img"), "NFS3ERR_NOENT"), (server.url("disk.img", "nowhere"), "MNT answers"), (server.url("folder"), "directory"),
                              (server.url("link.img"), "symbolic link"), (server.url("empty.img"), "size="), (server.url("disk.img", options="?version=3"), "mountport="),
                              (server.url("disk.img") + "&uid=4711&gid=4711", "uid=")):
                said = linerate("inspect", url, status=1, within=server.within)
                if word not in said:
                    raise RuntimeError(f"{url} says: {said}")
            if "1048576" not in linerate("inspect", "--json", server.url("empty.img") + "&size=1M", within=server.within):
                raise RuntimeError("the file did not grow")

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
    yield "ganesha, contract, 3", ganesha3_contract
    for options in ("", "?version=4.1", "?block=4096", "?version=3"):
        yield f"linerate, contract{options}", lambda options=options: own_contract(options, "auto")
    yield "linerate, contract, on epoll", lambda: own_contract("", "epoll")
    for options in ("", "?version=4.1&crc=1", "?version=3&mountport=MOUNTPORT"):
        yield f"linerate, contract over iWARP{options}", lambda options=options: rdma_contract(options)
    yield "ganesha without 4.2", falls_back
    for make in (Ganesha, Ganesha3, Own):
        yield f"{make.__name__.lower()}, copies", lambda make=make: copies(make)
    yield "ganesha, served over iSCSI and NVMe/TCP", gateway
    for make in (Ganesha, Ganesha3):
        yield f"{make.__name__.lower()} is killed", lambda make=make: restarts(make)
        yield f"{make.__name__.lower()}, read-only export", lambda make=make: readers(make)
    yield "ganesha, exclusive", exclusive
    yield "ganesha, what is wrong", wrong
    yield "ganesha, what is wrong, 3", wrong3


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
