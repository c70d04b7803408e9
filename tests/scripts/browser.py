"""Debian's Chromium without a window, driven over a pipe (its DevTools protocol): for tests of pages and for pictures of them."""

import base64
import json
import os
import shutil
import subprocess
import tempfile


class Browser:
    """One tab. What the page complains of is in `complaints`, what it has asked for in `requests`."""

    def __init__(self):
        program = shutil.which("chromium")
        if not program:
            raise FileNotFoundError("chromium is missing: scripts/install.sh tests")
        self._profile = tempfile.mkdtemp()
        read_end, self._out = os.pipe()
        self._in, write_end = os.pipe()
        # It reads from descriptor 3 and writes to 4.
        words = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                 "--hide-scrollbars", "--disable-extensions", "--disable-background-networking", "--remote-debugging-pipe",
                 f"--user-data-dir={self._profile}", "about:blank"]
        self._process = subprocess.Popen(["bash", "-c", f'exec "$@" 3<&{read_end} 4>&{write_end}', "bash", *words],
                                         pass_fds=(read_end, write_end), stderr=subprocess.DEVNULL)
        os.close(read_end)
        os.close(write_end)
        self._buffer, self._last, self._session = b"", 0, None
        self.complaints, self.requests = [], []
        self._is_loaded = False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._profile, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _message(self):
        while b"\0" not in self._buffer:
            part = os.read(self._in, 1 << 20)
            if not part:
                raise EOFError("chromium has ended")
            self._buffer += part
        text, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(text)

    def _heed(self, message):
        method, said = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = said["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(" ".join(str(a.get("value", a.get("description"))) for a in said["args"]))
        elif method == "Log.entryAdded":
            self.complaints.append(said["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(said["request"]["url"])
        elif method == "Page.loadEventFired":
            self._is_loaded = True

    def call(self, method, **params):
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") != self._last:
                self._heed(answer)
                continue
            if "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            return answer["result"]

    def size(self, width, height=900, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=width < 600)

    def media(self, scheme="light", kind=""):
        self.call("Emulation.setEmulatedMedia", media=kind, features=[{"name": "prefers-color-scheme", "value": scheme}])

    def load(self, path):
        self._is_loaded = False
        self.call("Page.navigate", url=f"file://{os.path.abspath(path)}")
        while not self._is_loaded:
            self._heed(self._message())

    def open(self, path):
        self.load(path)
        self.settle()

    def settle(self):
        """Until what waits for the next frames has been drawn."""
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(done))))")

    def evaluate(self, script):
        out = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in out:
            raise RuntimeError(out["exceptionDetails"].get("exception", {}).get("description", script))
        return out["result"].get("value")

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            said = {"type": kind, "key": key}
            if key == "Tab":
                said["windowsVirtualKeyCode"] = 9
            self.call("Input.dispatchKeyEvent", **said)
        self.settle()

    def screenshot(self, path, selector=None):
        """Of the whole page, or of one element."""
        clip = self.evaluate("(() => { const r = (" + (f"document.querySelector({json.dumps(selector)})" if selector else
                             "document.documentElement") + ").getBoundingClientRect();"
                             "return {x: r.x + scrollX, y: r.y + scrollY, width: r.width, height: r.height, scale: 1}; })()")
        shot = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def pdf(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"]))
