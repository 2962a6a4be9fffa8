"""A headless Chromium that is told what to do over two pipes (the DevTools protocol), so that no library
and no port is needed.

Where there is none, a test that asks for one is skipped, and says so. Debian has it as
`chromium-headless-shell`.
"""

import base64
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pytest

from tests.support.waiting import HANG_S

NAMES: Final = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_TICK_MS: Final = 20


def chromium() -> str:
    """The program; skips the test that asks where there is none."""
    found = next(filter(None, map(shutil.which, NAMES)), "")
    if not found:
        pytest.skip("no Chromium on this machine (Debian: chromium-headless-shell)")
    return found


class Browser:
    """One browser with one page. A context manager."""

    def __init__(self) -> None:
        program = chromium()
        self._folder = tempfile.mkdtemp(prefix="berth-browser-")
        from_us, self._to = os.pipe()
        self._from, to_us = os.pipe()

        def as_three_and_four() -> None:
            kept = os.dup(from_us), os.dup(to_us)
            os.dup2(kept[0], 3)
            os.dup2(kept[1], 4)

        options = ["--remote-debugging-pipe", "--headless", "--no-sandbox", "--disable-gpu",
                   "--hide-scrollbars", "--ignore-certificate-errors", "--disable-dev-shm-usage",
                   "--force-color-profile=srgb", f"--user-data-dir={self._folder}"]  # fmt: skip
        self._process = subprocess.Popen(
            [program, *options, "about:blank"],
            preexec_fn=as_three_and_four,  # noqa: PLW1509  # Before any thread of this test's.
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(from_us)
        os.close(to_us)
        self._rest = b""
        self._last_id = 0
        self._session = ""
        self.events: list[dict[str, Any]] = []
        """All that the page said: exceptions, violations of its policy, requests."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "DOM", "Accessibility"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        os.close(self._to)
        self._process.terminate()
        self._process.wait(HANG_S)
        os.close(self._from)
        shutil.rmtree(self._folder, ignore_errors=True)

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """What the browser answers; AssertionError where it refuses."""
        self._last_id += 1
        asked: dict[str, object] = {"id": self._last_id, "method": method, "params": parameters}
        if self._session:
            asked["sessionId"] = self._session
        os.write(self._to, json.dumps(asked).encode() + b"\0")
        while True:
            told = self._read()
            if told.get("id") == self._last_id:
                assert "error" not in told, f"{method}: {told['error']}"
                found: dict[str, Any] = told["result"]
                return found
            self.events.append(told)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            chunk = os.read(self._from, 1 << 20)
            assert chunk, "the browser has ended"
            self._rest += chunk
        text, _, self._rest = self._rest.partition(b"\0")
        told: dict[str, Any] = json.loads(text)
        return told

    # What a person does --------------------------------------------------------------------------

    def look(self, width: int, height: int, *, is_dark: bool = False, scale: int = 1) -> None:
        """The window and the colours that the person likes."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        motion = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.call("Emulation.setEmulatedMedia", features=[scheme, motion])

    def go(self, url: str) -> None:
        """Opens a page. What the one before said is forgotten."""
        self.call("Page.navigate", url="about:blank")
        self.events.clear()
        self.call("Page.navigate", url=url)

    def ask(self, expression: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, expression: str) -> Any:
        """Until the expression is true; its value. The page itself looks again and again."""
        told = json.dumps(f"in vain: {expression}")
        return self.ask(
            f"""new Promise((done, fail) => {{
              const end = performance.now() + {HANG_S * 1000};
              const look = () => {{
                const found = (() => {{ try {{ return {expression}; }} catch {{ return null; }} }})();
                if (found) done(found);
                else if (performance.now() > end) fail(new Error({told}));
                else setTimeout(look, {_TICK_MS});
              }};
              look();
            }})"""
        )

    def press(self, key: str, code: int = 0, text: str = "") -> None:
        """A key, as the keyboard sends it."""
        common = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def picture(self, file: Path, *, is_whole: bool = True) -> None:
        """A PNG of the page, as high as it is."""
        shown = self.call("Page.captureScreenshot", captureBeyondViewport=is_whole)
        file.write_bytes(base64.b64decode(shown["data"]))

    def accessible(self) -> list[tuple[str, str]]:
        """(role, name) of everything that a screen reader gets to know."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [
            (node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in nodes
            if not node["ignored"]
        ]

    def complaints(self) -> list[str]:
        """Exceptions, and whatever the page's policy forbade."""
        self.ask("1")
        found = []
        for event in self.events:
            match event.get("method"):
                case "Runtime.exceptionThrown":
                    found.append(json.dumps(event["params"]["exceptionDetails"]))
                case "Log.entryAdded":
                    entry = event["params"]["entry"]
                    if entry["level"] == "error":
                        found.append(entry["text"])
                case _:
                    pass
        return found

    def requested(self) -> list[str]:
        """The URLs that the page asked for."""
        sent = (e for e in self.events if e.get("method") == "Network.requestWillBeSent")
        return [event["params"]["request"]["url"] for event in sent]
