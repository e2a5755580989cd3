"""A headless Chromium for tests, driven over the DevTools protocol."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, TextMessage
from wsproto.events import Request as Upgrade

from relay_lab.drills.tether import tie

#: The names under which systems install it.
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
LIMIT_S = 60.0
_OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # containers, and root, have none
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--remote-debugging-port=0",
)


def find_browser() -> str | None:
    """The path of a Chromium; None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """One page."""

    def __init__(self, url: str) -> None:
        """`url`: of the page's WebSocket."""
        place = urlsplit(url)
        self._socket = socket.create_connection((place.hostname, place.port), LIMIT_S)
        self._connection = WSConnection(ConnectionType.CLIENT)
        self._socket.sendall(self._connection.send(Upgrade(host=place.netloc, target=place.path)))
        self._is_open = False
        self._number = 0
        self._text = ""
        self._arrived: list[dict[str, Any]] = []
        #: Errors that the page logged, and uncaught exceptions.
        self.errors: list[str] = []
        while not self._is_open:
            self._read()
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call the browser; its answer."""
        self._number += 1
        request = {"id": self._number, "method": method, "params": parameters}
        self._socket.sendall(self._connection.send(TextMessage(json.dumps(request))))
        while True:
            while self._arrived:
                message = self._arrived.pop(0)
                if message.get("id") == self._number:
                    assert "error" not in message, message
                    result: dict[str, Any] = message["result"]
                    return result
                self._note(message)
            self._read()

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait_for(self, expression: str) -> float:
        """Wait until an expression is true; the seconds that it took."""
        began = time.monotonic()
        while not self.evaluate(f"Boolean({expression})"):
            assert time.monotonic() - began < LIMIT_S, f"{expression}: {self.evaluate('document.body.innerText')}"
            time.sleep(0.02)
        return time.monotonic() - began

    def press(self, key: str, code: int) -> None:
        """Press a key; `code` is its virtual key code."""
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **text)

    def resize(self, width: int, height: int, *, dark: bool = False) -> None:
        """Show the page in this size and theme, without scroll bars."""
        self.call("Emulation.setScrollbarsHidden", hidden=True)
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def photograph(self, path: Path) -> None:
        """Write a picture of the visible page."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def close(self) -> None:
        self._socket.close()

    def _note(self, message: dict[str, Any]) -> None:
        about = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(about["exceptionDetails"]))
        elif message.get("method") == "Log.entryAdded" and about["entry"]["level"] == "error":
            self.errors.append(about["entry"]["text"])

    def _read(self) -> None:
        data = self._socket.recv(1 << 20)
        assert data, "the browser has gone"
        self._connection.receive_data(data)
        for event in self._connection.events():
            assert not isinstance(event, CloseConnection)
            self._is_open |= isinstance(event, AcceptConnection)
            if isinstance(event, TextMessage):
                self._text += event.data
                if event.message_finished:
                    self._arrived.append(json.loads(self._text))
                    self._text = ""


class Browser:
    """A running browser."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._pages: list[Page] = []

    def close(self) -> None:
        """Close all pages."""
        for page in self._pages:
            page.close()

    def open(self, url: str) -> Page:
        """A new page."""
        with urlopen(Request(f"http://{self._place}/json/new?about:blank", method="PUT"), timeout=LIMIT_S) as answer:
            page = Page(json.load(answer)["webSocketDebuggerUrl"])
        self._pages.append(page)
        page.call("Page.navigate", url=url)
        page.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")
        return page


@contextmanager
def browser(path: str, directory: Path) -> Iterator[Browser]:
    """A browser with a fresh profile, which is gone after the block."""
    command = [path, *_OPTIONS, f"--user-data-dir={directory}", "about:blank"]
    silent = subprocess.DEVNULL
    process = subprocess.Popen(tie(command), stdin=silent, stdout=silent, stderr=silent)
    try:
        with closing(Browser(f"127.0.0.1:{_port(directory / 'DevToolsActivePort')}")) as running:
            yield running
    finally:
        process.kill()
        process.wait()


def _port(file: Path) -> int:
    """The port at which the browser listens, from the file that it writes then."""
    ends = time.monotonic() + LIMIT_S
    while not (file.exists() and (lines := file.read_text().splitlines())):
        assert time.monotonic() < ends, "the browser does not start"
        time.sleep(0.02)
    return int(lines[0])
