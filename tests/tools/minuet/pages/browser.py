"""A headless Chromium over its DevTools protocol, by a pipe: the standard library is all that it takes."""

import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
FLAGS = ["--headless=new", "--no-sandbox", "--remote-debugging-pipe", "--use-angle=swiftshader",
         "--enable-unsafe-swiftshader", "--hide-scrollbars", "--no-first-run", "--disable-extensions",
         "--disable-background-networking", "--disable-component-update", "--force-device-scale-factor=1"]
SECONDS = 60  # that an answer may take


def find():
    """A browser that is installed, or None. A snap sees no folder of ours."""
    for name in NAMES:
        path = shutil.which(name)
        if path and "/snap" not in str(pathlib.Path(path).resolve()):
            return path
    return None


class Browser:
    """One window. `complaints`: what the console and the page's exceptions said; `requests`: what was fetched."""

    def __init__(self, program, width=1000, height=700):
        self.home = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        ours, self.write_end = os.pipe()
        self.read_end, theirs = os.pipe()

        def pipes_at_3_and_4():
            first, second = os.dup(ours), os.dup(theirs)
            os.dup2(first, 3)
            os.dup2(second, 4)

        self.process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={self.home.name}", f"--window-size={width},{height}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": self.home.name}, preexec_fn=pipes_at_3_and_4, pass_fds=(3, 4))
        os.close(ours)
        os.close(theirs)
        self.buffer, self.sent, self.session = b"", 0, None
        self.complaints, self.requests, self.loaded = [], [], False
        target = next(one["targetId"] for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.write_end)
        os.close(self.read_end)
        self.home.cleanup()

    def receive(self):
        """The next message."""
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.read_end], [], [], SECONDS)
            more = os.read(self.read_end, 1 << 20) if ready else b""
            if not more:
                raise RuntimeError("the browser has ended, or does not answer")
            self.buffer += more
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def note(self, event):
        method, values = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = values["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and values["type"] in ("error", "warning", "assert"):
            self.complaints.append(" ".join(str(value.get("value")) for value in values["args"]))
        elif method == "Log.entryAdded" and values["entry"]["level"] in ("error", "warning"):
            self.complaints.append(values["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(values["request"]["url"])
        elif method == "Page.loadEventFired":
            self.loaded = True

    def call(self, method, **values):
        self.sent += 1
        message = {"id": self.sent, "method": method, "params": values}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.write_end, data):]
        while True:
            answer = self.receive()
            if answer.get("id") != self.sent:
                self.note(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']['message']}")
            else:
                return answer["result"]

    def open(self, path, fragment=""):
        """Opens the file, or about:blank, and waits until it is loaded and drawn."""
        self.complaints, self.requests, self.loaded = [], [], False
        url = path if path == "about:blank" else pathlib.Path(path).resolve().as_uri() + fragment
        self.call("Page.navigate", url=url)
        while not self.loaded:
            self.note(self.receive())
        self.settle()

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description", expression))
        return answer["result"].get("value")

    def settle(self):
        """Until what was asked for has been drawn."""
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def wait_until(self, expression):
        end = time.monotonic() + SECONDS
        while not self.evaluate(expression):
            if time.monotonic() > end:
                raise RuntimeError(f"never true: {expression}")
            time.sleep(0.02)

    def text(self, selector):
        return self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")

    def click(self, selector):
        box = self.evaluate(f"""(() => {{
            const box = document.querySelector({json.dumps(selector)}).getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2];
        }})()""")
        self.drag(box, [])

    def mouse(self, kind, place, button="none", **more):
        held = {"none": 0, "left": 1, "right": 2}[button]
        self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button=button, buttons=held,
                  clickCount=1, **more)

    def drag(self, start, places, button="left"):
        """Presses at the start, moves along the places, and lets go."""
        self.mouse("mousePressed", start, button)
        for place in places:
            self.mouse("mouseMoved", place, button)
        self.mouse("mouseReleased", places[-1] if places else start, button)
        self.settle()

    def wheel(self, place, delta):
        self.mouse("mouseWheel", place, deltaX=0, deltaY=delta)
        self.settle()

    def key(self, key, shift=False):
        text = {"text": key} if len(key) == 1 else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, modifiers=8 if shift else 0,
                      **(text if kind == "keyDown" else {}))
        self.settle()

    def prefer(self, theme):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        self.settle()

    def screenshot(self, path=None):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        if path:
            pathlib.Path(path).write_bytes(base64.b64decode(data))
        return data

    def picture(self, before, source, box):
        """Of a part of a canvas or an image, x, y, width, height: how many colours it has, the most frequent one, what
        share of the pixels has another one, and a number that differs where the picture does."""
        return self.evaluate("""(async () => {
            %s;
            const [x, y, width, height] = %s;
            const canvas = new OffscreenCanvas(width, height), context = canvas.getContext("2d");
            context.drawImage(%s, -x, -y);
            const pixels = new Uint32Array(context.getImageData(0, 0, width, height).data.buffer);
            const counts = new Map();
            let digest = 0;
            for (const pixel of pixels) {
                counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
                digest = (Math.imul(digest, 31) + pixel) | 0;
            }
            const [back, most] = [...counts].reduce((a, b) => a[1] < b[1] ? b : a);
            const parts = [back & 255, back >> 8 & 255, back >> 16 & 255];
            return {colours: counts.size, back: parts, drawn: 1 - most / pixels.length, digest};
        })()""" % (before, json.dumps(box), source))

    def screen(self, box):
        """The same of what the window shows. By a blob, which a page's policy lets be."""
        return self.picture('const image = await createImageBitmap(new Blob([Uint8Array.from(atob("%s"), '
                            '(letter) => letter.charCodeAt(0))]))' % self.screenshot(), "image", box)
