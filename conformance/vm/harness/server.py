"""What the guest talks to: `linerate serve`, the judged one; or tgt, a peer that is known to work, to judge the harness itself."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from .network import SERVER_ADDRESS, Network
from .process import Child, HarnessError, command

ISCSI_PORT = 3260
NVME_PORT = 4420
START_SECONDS = 30.0
MEMORY_MIB = 1536
"""The guest's memory, which an adapter shares."""
TARGET_PREFIX = "iqn.2026-11.org.linerate"
SUBSYSTEM_PREFIX = "nqn.2026-11.org.linerate"

CHAP_USER = "guest"
CHAP_SECRET = "one-way-secret"
CHAP_MUTUAL_USER = "target"
CHAP_MUTUAL_SECRET = "mutual-secret-2"

MANY = 1000
"""Volumes of a second server, for discovery alone; its ports are the next ones."""

CHANGING = 5
"""How far the port of a portal that comes and goes lies beyond the usual one."""

EAST, EAST_AGAIN, WEST = 2, 3, 4
"""How far the ports of two more servers lie beyond the usual ones. They have equal names of volumes, and share nothing; the first has two portals."""
SHARED_UUID = "0b3f5f0e-6a1d-4c58-9f2b-7d1f0c9a4e21"
"""The identity of a volume that both say they have."""

VOLUMES = {"ram": 256, "file": 256, "vhost": 64, "packed": 64, "chap": 16, "mutual": 16}
"""The volumes and their sizes in MiB. `vhost` and `packed` are attached to the guest as disks, the latter with packed rings; the last two ask for CHAP, one-way and mutual."""

DISKS = {"vhost": "", "packed": ",packed=on"}
"""Disks of the guest in its own memory, in the order in which it names them, with QEMU's options."""


class Server:
    """A server in the run's network. As a context manager it serves inside the block."""

    script_seconds = 420.0
    """How long one script of the guest's may take."""
    expects_losses = False
    """Whether the guest loses its sessions on purpose, so that its kernel may say so."""

    def __init__(self, network: Network, folder: Path) -> None:
        self.network = network
        self.folder = folder
        self.log = folder / "server.log"
        self._open = ExitStack()

    def environment(self) -> dict[str, str]:
        """What the guest's scripts need to know to find the server."""
        return {
            "ISCSI_PORTAL": f"{SERVER_ADDRESS}:{ISCSI_PORT}",
            "NVME_ADDRESS": SERVER_ADDRESS,
            "NVME_PORT": str(NVME_PORT),
            "TARGET_PREFIX": TARGET_PREFIX,
            "SUBSYSTEM_PREFIX": SUBSYSTEM_PREFIX,
            "CHAP_USER": CHAP_USER,
            "CHAP_SECRET": CHAP_SECRET,
            "CHAP_MUTUAL_USER": CHAP_MUTUAL_USER,
            "CHAP_MUTUAL_SECRET": CHAP_MUTUAL_SECRET,
        }

    def start(self) -> None:
        """Starts serving; returns when the ports are open."""
        raise NotImplementedError

    def devices(self) -> list[str]:
        """What QEMU has to be told so that the guest has the server's own devices."""
        return []

    def files(self) -> dict[str, Path]:
        """What of the machine's the guest needs, by name."""
        return {}

    def obey(self, order: str) -> None:
        """Does what a script of the guest's asks for."""
        raise HarnessError(f"there is nobody here to `{order}`")

    def spawn(self, argv: list[str | Path], env: dict[str, str] | None = None) -> Child:
        """Starts a process of the server's in the network, with its output going to the log."""
        output = self._open.enter_context(self.log.open("ab"))
        return self._open.enter_context(Child(self.network.inside(argv), stdout=output.fileno(), stderr=subprocess.STDOUT, env=env))

    def tail(self, lines: int = 60) -> list[str]:
        """The end of the server's log."""
        return self.log.read_text(errors="replace").splitlines()[-lines:] if self.log.exists() else []

    def wait(self, child: Child, ready: Path) -> None:
        """Waits for the file that says that the server is ready."""
        deadline = time.monotonic() + START_SECONDS
        while not ready.exists():
            if child.exit_code() is not None or time.monotonic() > deadline:
                said = "\n".join(self.tail())
                raise HarnessError(f"the server did not start (exit code {child.exit_code()}):\n{said}")
            time.sleep(0.05)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._open.close()


class Judged(Server):
    """A server of ours."""

    def shut_down(self) -> str | None:
        """Asks it to end; returns what is wrong with how it did."""
        raise NotImplementedError


class Linerate(Judged):
    """`linerate serve` with a configuration file for this run, and the other servers that scripts ask for."""

    def __init__(self, network: Network, folder: Path, binary: Path) -> None:
        super().__init__(network, folder)
        self._binary = binary
        self.main = Daemon(self, binary, "linerate")
        self._many = Daemon(self, binary, "many")
        self._pair = {name: Daemon(self, binary, name) for name in ("east", "west")}
        self._adapter: Child | None = None

    def environment(self) -> dict[str, str]:
        more = {"MANY": str(MANY), "MANY_ISCSI_PORTAL": f"{SERVER_ADDRESS}:{ISCSI_PORT + 1}", "MANY_NVME_PORT": str(NVME_PORT + 1)}
        for name, offset in (("EAST", EAST), ("EAST_AGAIN", EAST_AGAIN), ("WEST", WEST)):
            more |= {f"{name}_ISCSI_PORTAL": f"{SERVER_ADDRESS}:{ISCSI_PORT + offset}", f"{name}_NVME_PORT": str(NVME_PORT + offset)}
        return {**super().environment(), **more}

    def start(self) -> None:
        (self.folder / "chap-secret").write_text(CHAP_SECRET)
        (self.folder / "chap-mutual-secret").write_text(CHAP_MUTUAL_SECRET)
        self.main.start(self._config())
        self._many.start([*portals(1), *volumes({f"many-{number:04}": "null:64M" for number in range(MANY)})])
        for name, daemon in self._pair.items():
            daemon.start(self._pair_config(name))
        self._attach()

    def _attach(self) -> None:
        """Starts the adapter, also again: one process with both disks of the guest."""
        attached = self.folder / "attached"
        attached.unlink(missing_ok=True)
        places = []
        for name in DISKS:
            places += [f"nvme+tcp://{SERVER_ADDRESS}:{NVME_PORT}/{SUBSYSTEM_PREFIX}:{name}/1", str(self.folder / f"{name}.sock")]
        arguments = ["attach", *places, "--as", "vhost-user", "--ready-file", str(attached)]
        self._adapter = self.spawn([self._binary, *arguments], env={"RUST_BACKTRACE": "1"})
        self.wait(self._adapter, attached)

    def devices(self) -> list[str]:
        devices = ["-object", f"memory-backend-memfd,id=memory,size={MEMORY_MIB}M,share=on", "-machine", "memory-backend=memory"]
        for name, options in DISKS.items():
            devices += ["-chardev", f"socket,id={name},path={self.folder / name}.sock,reconnect=1"]
            devices += ["-device", f"vhost-user-blk-pci,chardev={name},num-queues=2{options}"]
        return devices

    def files(self) -> dict[str, Path]:
        return with_libraries("linerate", self._binary, self.folder)

    def obey(self, order: str) -> None:
        match order.split():
            case ["restart", name] if name in self._pair:
                if (code := self._pair[name].stop()) != 0:
                    raise HarnessError(f"the server {name} ended with {code} on SIGTERM")
                self._pair[name].start(self._pair_config(name))
            case ["kill", "adapter"]:
                assert self._adapter is not None
                self._adapter.stop(signal.SIGKILL)
                self._attach()
            case ["reload", "more"]:
                self.main.reload(self._with_more())
            case ["reload", "fewer"]:
                self.main.reload(self._config())
            case ["reload", times]:
                self._change(int(times))
            case _:
                super().obey(order)

    def shut_down(self) -> str | None:
        assert self._adapter is not None
        if (code := self._adapter.stop()) != 0:
            return f"the adapter ended with {code} on SIGTERM"
        for daemon in (self._many, *self._pair.values(), self.main):
            if (wrong := daemon.shut_down()) is not None:
                return wrong
        return None

    def _change(self, times: int) -> None:
        """Has the main server read another configuration so many times, an even number: a volume, a portal, a rule and an account come and go."""
        for number in range(times):
            extra = []
            if number % 2 == 0:
                # What is taken out may take a while to be closed, and its name is free after that.
                name = f"change-{number}"
                extra = ["[[portal]]", 'protocol = "nvme"', f'listen = "{SERVER_ADDRESS}:{NVME_PORT + CHANGING}"', *volumes({name: "ram:1M"})]
                extra += ["[[access]]", f'volume = "{name}"', f'chap = {{ user = "{name}", secret_file = "{self.folder}/chap-secret" }}']
            self.main.reload([*self._config(), *extra])

    def _with_more(self) -> list[str]:
        """The usual configuration, and a second logical unit and namespace in each of two targets."""
        lines = self._config()
        for name in ("ram", "file"):
            lines += [*volumes({f"{name}-more": "ram:16M"}), f'target = "{name}"', "lun = 1"]
        return lines

    def _config(self) -> list[str]:
        """The configuration of the server that most scripts use."""
        image = self.folder / "volume.img"
        lines = [*portals(0), *volumes({name: f"file:{image}?size={size}M" if name == "file" else f"ram:{size}M" for name, size in VOLUMES.items()})]
        one_way = f'user = "{CHAP_USER}", secret_file = "{self.folder}/chap-secret"'
        mutual = f'{one_way}, mutual_user = "{CHAP_MUTUAL_USER}", mutual_secret_file = "{self.folder}/chap-mutual-secret"'
        for name, chap in (("chap", one_way), ("mutual", mutual)):
            lines += ["[[access]]", f'volume = "{name}"', f"chap = {{ {chap} }}"]
        return lines

    def _pair_config(self, name: str) -> list[str]:
        """One of the two servers: a volume of its own, and one that both say is the same. Hosts take subsystems of one name for one subsystem, so
        those names differ; the targets' names are equal."""
        offsets = (EAST, EAST_AGAIN) if name == "east" else (WEST,)
        lines = ["[daemon]", f'nqn_prefix = "{SUBSYSTEM_PREFIX}.{name}:"', *(line for offset in offsets for line in portals(offset))]
        lines += volumes({"twin": f"file:{self.folder}/{name}.img?size=16M", "shared": "ram:16M"})
        return [*lines, f'uuid = "{SHARED_UUID}"']


class Daemon:
    """One `linerate serve` with a state folder of its own; it can be started again."""

    def __init__(self, server: Server, binary: Path, name: str) -> None:
        if not binary.is_file():
            raise HarnessError(f"there is no {binary}: build it with `cargo build --release`, or name another one with --server")
        self._server = server
        self._binary = binary
        self._name = name
        self._child: Child | None = None
        self._config = server.folder / f"{name}.toml"
        self._ready = server.folder / f"{name}-ready"

    def start(self, config: list[str]) -> None:
        """Serves; returns when the ports are open."""
        folder, path, ready = self._server.folder, self._config, self._ready
        self._write(config)
        ready.unlink(missing_ok=True)
        arguments = ["serve", "--config", str(path), "--ready-file", str(ready), "--allow-any", "--state", str(folder / f"{self._name}-state")]
        self._child = self._server.spawn([self._binary, *arguments], env={"RUST_BACKTRACE": "1"})
        self._server.wait(self._child, ready)

    def reload(self, config: list[str]) -> None:
        """Has it read another configuration; returns when that is served, which the ready file tells, or the log that nothing is different."""
        assert self._child is not None
        before, said = self._stamp(), self._server.log.stat().st_size
        self._write(config)
        self._child.send(signal.SIGHUP)
        deadline = time.monotonic() + START_SECONDS
        while self._stamp() == before:
            with self._server.log.open("rb") as file:
                file.seek(said)
                log = file.read().decode(errors="replace")
            if "was not applied" in log or time.monotonic() > deadline:
                raise HarnessError(f"the server {self._name} does not serve another configuration:\n{log}")
            if "is unchanged" in log:
                return
            time.sleep(0.005)

    def _stamp(self) -> tuple[int, int]:
        """Which ready file it is. Two may be written within one tick of the clock, but each is another file."""
        status = self._ready.stat()
        return status.st_ino, status.st_mtime_ns

    def _write(self, config: list[str]) -> None:
        """Puts a configuration in the place of the one before, which is never seen in half."""
        new = self._config.with_suffix(".new")
        new.write_text("\n".join(config) + "\n")
        new.rename(self._config)

    @property
    def process(self) -> int:
        """The process's number."""
        assert self._child is not None
        return self._child.process

    def stop(self, *orders: signal.Signals) -> int:
        """Ends it, by SIGTERM unless told otherwise. Returns its exit code."""
        assert self._child is not None
        return self._child.stop(*orders)

    def shut_down(self) -> str | None:
        """Asks it to end; returns what is wrong with how it did, or with how it went before."""
        assert self._child is not None
        if (code := self._child.exit_code()) is not None:
            return f"the server {self._name} had ended by itself, with {code}"
        if (code := self._child.stop()) != 0:
            return f"the server {self._name} ended with {code} on SIGTERM"
        panics = [line for line in self._server.tail(10_000) if "panicked at" in line]
        return panics[0] if panics else None


def portals(offset: int, address: str = SERVER_ADDRESS, transport: str = "tcp") -> list[str]:
    """Both protocols' portals, so many ports beyond the usual ones."""
    lines = []
    for protocol, port in (("iscsi", ISCSI_PORT), ("nvme", NVME_PORT)):
        lines += ["[[portal]]", f'protocol = "{protocol}"', f'transport = "{transport}"', f'listen = "{address}:{port + offset}"']
    return lines


def volumes(urls: dict[str, str]) -> list[str]:
    """Volumes by name, in this order."""
    return [line for name, url in urls.items() for line in ("[[volume]]", f'name = "{name}"', f'url = "{url}"')]


def with_libraries(name: str, binary: Path, folder: Path) -> dict[str, Path]:
    """A program of the machine's, without what debuggers want, and the libraries that it loads, for the guest to run."""
    program = folder / f"stripped-{name}"
    command(["strip", "-o", program, binary])
    files = {name: program}
    for library, path in re.findall(r"^\t(?:(\S+) => )?(/\S+) \(0x\w+\)$", command(["ldd", program]), re.MULTILINE):
        files[library or "loader"] = Path(path)
    return files


class Tgt(Server):
    """tgt with the same targets. It speaks only iSCSI; the guest's kernel is its own NVMe/TCP target then (guest/nvmet.sh)."""

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "NVME_ADDRESS": "127.0.0.1", "PREPARE": "nvmet"}

    def start(self) -> None:
        self._socket = self.folder / "tgt"
        child = self.spawn(
            ["tgtd", "--foreground", "--iscsi", f"portal={SERVER_ADDRESS}:{ISCSI_PORT}"],
            env={"TGT_IPC_SOCKET": str(self._socket)},
        )
        self._open.callback(child.stop, signal.SIGKILL)  # it ignores SIGTERM while it has targets
        self.wait(child, Path(f"{self._socket}.0"))
        self._accounts()
        for number, (name, size) in enumerate(VOLUMES.items(), start=1):
            self._target(number, name, size)

    def _accounts(self) -> None:
        for user, secret in ((CHAP_USER, CHAP_SECRET), (CHAP_MUTUAL_USER, CHAP_MUTUAL_SECRET)):
            self._admin("account", "new", "--user", user, "--password", secret)

    def _target(self, number: int, name: str, size: int) -> None:
        image = self.folder / f"{name}.img"
        image.touch()
        image.open("r+b").truncate(size << 20)
        target = ("--tid", str(number))
        unit = (*target, "--lun", "1")
        self._admin("target", "new", *target, "--targetname", f"{TARGET_PREFIX}:{name}")
        self._admin("logicalunit", "new", *unit, "--backing-store", str(image))
        self._admin("logicalunit", "update", *unit, "--params", "thin_provisioning=1")
        for digest in ("HeaderDigest", "DataDigest"):
            self._admin("target", "update", *target, "--name", digest, "--value", "CRC32C,None")
        self._admin("target", "bind", *target, "--initiator-address", "ALL")
        if name in ("chap", "mutual"):
            self._admin("account", "bind", *target, "--user", CHAP_USER)
        if name == "mutual":
            self._admin("account", "bind", *target, "--user", CHAP_MUTUAL_USER, "--outgoing")

    def _admin(self, mode: str, operation: str, *arguments: str) -> None:
        tgtadm = ["tgtadm", "--lld", "iscsi", "--mode", mode, "--op", operation, *arguments]
        command(["env", f"TGT_IPC_SOCKET={self._socket}", *tgtadm])
