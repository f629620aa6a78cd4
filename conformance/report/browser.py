"""Chromium without a window and without a network, driven over its debugging pipe (the Chrome DevTools Protocol).

A pipe needs neither a port nor a library: messages are JSON, each ended by a zero byte.
"""
import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path

# Seconds for one answer. Generous: the machine may be busy.
PATIENCE = 60
FLAGS = (
    "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--mute-audio",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    # What a namespace without links does not stop already.
    "--proxy-server=127.0.0.1:9", "--proxy-bypass-list=<-loopback>",
)


def without_network():
    """The words before a command that take its network away; none where the machine lets nobody make a namespace."""
    for words in (["unshare", "--net"], ["unshare", "--map-root-user", "--net"]):
        if shutil.which("unshare") and subprocess.run([*words, "true"], capture_output=True).returncode == 0:
            return words
    return []


class Browser:
    """A browser as a `with` block. Leaving the block ends it and all that it started."""

    def __init__(self, folder):
        program = shutil.which("chromium")
        if program is None:
            raise RuntimeError("chromium is not there: apt-get install chromium (scripts/packages-test.txt)")
        self.log = Path(folder) / "chromium.log"
        theirs_in, self.output = os.pipe()
        self.input, theirs_out = os.pipe()
        command = [*without_network(), program, *FLAGS, f"--user-data-dir={folder}/profile"]
        shell = ["sh", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "sh", *command]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(shell, pass_fds=(theirs_in, theirs_out), stdout=log, stderr=log, start_new_session=True,
                                            env=os.environ | {"HOME": str(folder)})
        os.close(theirs_in)
        os.close(theirs_out)
        self.buffer, self.last, self.events, self.session = b"", 0, [], None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.send("Browser.close")
            self.process.wait(PATIENCE)
        except (OSError, subprocess.TimeoutExpired):
            os.killpg(self.process.pid, 9)
            self.process.wait()
        os.close(self.output)
        os.close(self.input)

    def send(self, method, **parameters):
        """Sends a command without waiting; gives its number."""
        self.last += 1
        message = {"id": self.last, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.output, json.dumps(message).encode() + b"\0")
        return self.last

    def receive(self, deadline):
        """The next message."""
        while b"\0" not in self.buffer:
            if not select.select([self.input], [], [], max(0, deadline - time.monotonic()))[0]:
                raise RuntimeError(f"chromium gives no answer for {PATIENCE} s\n{self.log.read_text()[-2000:]}")
            more = os.read(self.input, 1 << 20)
            if not more:
                raise RuntimeError(f"chromium is gone\n{self.log.read_text()[-2000:]}")
            self.buffer += more
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def call(self, method, **parameters):
        """Sends a command and gives its result. Events that come before are kept."""
        number = self.send(method, **parameters)
        deadline = time.monotonic() + PATIENCE
        while True:
            message = self.receive(deadline)
            if message.get("id") != number:
                self.events.append(message)
            elif "error" in message:
                raise RuntimeError(f"{method}: {message['error']['message']}")
            else:
                return message["result"]

    def wait_for(self, method):
        """Waits for an event."""
        deadline = time.monotonic() + PATIENCE
        seen = 0
        while True:
            while seen < len(self.events):
                if self.events[seen].get("method") == method:
                    return
                seen += 1
            self.events.append(self.receive(deadline))

    def open(self, path, *, width=1280, dark=False, scripts=True):
        """Loads a file into a new page."""
        self.session, self.events = None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.call("Page.navigate", url=Path(path).resolve().as_uri())
        self.wait_for("Page.loadEventFired")

    def evaluate(self, expression):
        """The value of a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def complaints(self):
        """What the page logged as an error or warning, and every exception."""
        found = []
        for event in self.events:
            parameters = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(str(parameters["exceptionDetails"].get("exception", parameters["exceptionDetails"]).get("description")))
            elif event.get("method") == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
                found.append(" ".join(str(word.get("value", "")) for word in parameters["args"]))
            elif event.get("method") == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
                found.append(parameters["entry"]["text"])
        return found

    def requests(self):
        """The addresses that the page asked for."""
        return [event["params"]["request"]["url"] for event in self.events if event.get("method") == "Network.requestWillBeSent"]

    def screenshot(self, path, selector=None, *, scale=1):
        """A picture of the whole page, or of one element, as PNG."""
        box = self.evaluate(f"(() => {{ const box = document.querySelector({json.dumps(selector or 'body')}).getBoundingClientRect();"
                            " return [box.x + scrollX, box.y + scrollY, box.width, box.height]; })()")
        clip = dict(zip(("x", "y", "width", "height"), box)) | {"scale": scale}
        if selector is None:
            clip |= {"x": 0, "width": self.evaluate("innerWidth")}
        picture = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        Path(path).write_bytes(base64.b64decode(picture["data"]))
