#!/usr/bin/env python3
"""Software iWARP through network address translation: it is a TCP connection, and names no address.

Three network namespaces of its own: a client, a router and a server. The router hides the client behind its address, and leads what comes to its own
ports to the server. Over both protocols, with and without checksums, a volume is discovered, written, read back and compared, by the server's address and by the router's;
the server must have seen the router's address, and never the client's.

Needs root and nft(8). Without either every test is left out by its name, with the reason.
"""
import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent))
from harness import Account, linerate_binary, temporary_folder  # noqa: E402
from harness.servers import SUBSYSTEM, TARGET, wait_until  # noqa: E402

SIZE = 8 << 20
# Seconds for one command.
TIME_LIMIT = 300
CLIENT, INNER = "198.51.100.2", "198.51.100.1"
SERVER, OUTER = "192.0.2.2", "192.0.2.1"
PORTS = {"iser": 3261, "nvme-rdma": 4421}
# What the router does: whoever comes through it has its address, and what comes to its own ports is the server's.
RULES = f"""table ip nat {{
    chain in {{
        type nat hook prerouting priority dstnat;
        ip daddr {INNER} tcp dport {{ {", ".join(map(str, PORTS.values()))} }} dnat to {SERVER}
    }}
    chain out {{
        type nat hook postrouting priority srcnat;
        ip daddr {SERVER} masquerade
    }}
}}
"""


def demand(true, words, detail=""):
    """Fails with these words unless `true`."""
    if not true:
        raise RuntimeError(f"{words}\n{detail}")


def ip(*words, check=True):
    """Runs ip(8)."""
    subprocess.run(["ip", *words], check=check, capture_output=True)


class Network:
    """A client, a router and a server, for as long as the `with` block."""

    def __init__(self):
        mark = f"{os.getpid()}-{secrets.token_hex(2)}"
        self.client, self.router, self.server = (f"linerate-{word}-{mark}" for word in ("client", "router", "server"))

    def inside(self, name):
        """What stands before a command that is to run there."""
        return ["ip", "netns", "exec", name]

    def join(self, one, other, addresses):
        """A link between the router and another, with their addresses."""
        ip("-n", self.router, "link", "add", one, "type", "veth", "peer", "name", "up0", "netns", other)
        for name, device, address in ((self.router, one, addresses[0]), (other, "up0", addresses[1])):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", device)
            ip("-n", name, "link", "set", device, "up")
            ip("-n", name, "link", "set", "lo", "up")

    def __enter__(self):
        try:
            for name in (self.client, self.router, self.server):
                ip("netns", "add", name)
            self.join("inner0", self.client, (INNER, CLIENT))
            self.join("outer0", self.server, (OUTER, SERVER))
            ip("-n", self.client, "route", "add", "default", "via", INNER)
            # The server has no way to the client but what the router translates.
            subprocess.run([*self.inside(self.router), "sysctl", "-qw", "net.ipv4.ip_forward=1"], check=True, capture_output=True)
            subprocess.run([*self.inside(self.router), "nft", "-f", "-"], input=RULES, text=True, check=True, capture_output=True)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in (self.client, self.router, self.server):
            ip("netns", "del", name, check=False)


class Server:
    """`linerate serve` in the server's namespace, as a `with` block."""

    def __init__(self, network, folder):
        self.log, ready = folder / "linerate.log", folder / "ready"
        portals = [word for kind, port in PORTS.items() for word in (f"--{kind}", f"{SERVER}:{port}")]
        command = [linerate_binary(), "serve", f"disk=ram:{SIZE}", *portals, "--allow-any", "--ready-file", ready, "--state", folder / "state"]
        with self.log.open("w") as log:
            self.process = subprocess.Popen([*network.inside(network.server), *map(str, command)], stdout=log, stderr=log)
        try:
            wait_until(ready.exists, self.process, self.log)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def through(network, folder, kind, address, options):
    """A volume is discovered, written, read back and compared at this address."""
    scheme, name = {"iser": ("iser", f"{TARGET}:disk/0"), "nvme-rdma": ("nvme+rdma", f"{SUBSYSTEM}:disk/1")}[kind]
    portal = f"{scheme}://{address}:{PORTS[kind]}"
    url = f"{portal}/{name}{options}"
    source = folder / "source.raw"
    source.write_bytes(os.urandom(1 << 20) * (SIZE >> 20))

    def linerate(*words):
        command = [*network.inside(network.client), str(linerate_binary()), *words]
        run = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT)
        demand(run.returncode == 0, f"linerate {words[0]} ended with {run.returncode}", run.stdout + run.stderr)
        return run.stdout

    with Server(network, folder) as server:
        demand(f"{TARGET}:disk" in (found := linerate("discover", portal)) or f"{SUBSYSTEM}:disk" in found, "the volume was not found", found)
        linerate("copy", f"file:{source}", url, "--overwrite", "--verify")
        linerate("copy", url, f"file:{folder}/back.raw?size={SIZE}", "--overwrite")
        demand((folder / "back.raw").read_bytes() == source.read_bytes(), "what was read back is not what was written")
        log = server.log.read_text()
    demand(OUTER in log and CLIENT not in log, "the server has not seen the router's address alone", log)


def tests():
    """Names, and what each runs."""
    for kind in PORTS:
        for words, address in (("hidden behind the router", SERVER), ("at a port that the router leads on", INNER)):
            for options in ("", "?crc=1"):
                name = f"{kind} {words}{', checksums' if options else ''}"
                yield name, lambda network, folder, k=kind, a=address, o=options: through(network, folder, k, a, o)


def obstacle():
    """Why nothing can be tried here."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    return None if shutil.which("nft") else "nft(8) is not here"


def main():
    """Runs the tests, or leaves all of them out by name with the reason."""
    account, reason = Account("nat"), obstacle()
    if reason:
        for name, _ in tests():
            account.record("skipped", name, reason)
        account.close()
        return 0
    for name, function in tests():
        with account.test(name), temporary_folder() as folder, Network() as network:
            function(network, Path(folder))
    return account.close()


if __name__ == "__main__":
    sys.exit(main())
