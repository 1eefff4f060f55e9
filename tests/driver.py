"""Chromium as somebody uses it: opens pages, clicks, types and looks, over its debugging pipe."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Final, Self

from tests.browser import FOUND, PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

AT_ITS_PIPES: Final = (
    "import os, sys; theirs, said, *command = sys.argv[1:]; "
    "os.dup2(int(theirs), 3); os.dup2(int(said), 4); os.execv(command[0], command)"
)
"""Becomes a command that reads commands from descriptor 3 and answers on 4, as Chromium does."""
CODES: Final = {
    "Enter": ("Enter", 13, "\r"), "Tab": ("Tab", 9, ""),
    "ArrowDown": ("ArrowDown", 40, ""), "ArrowRight": ("ArrowRight", 39, ""),
}  # fmt: skip
"""Of a key: its code, its number, what it types."""
STILL_LOOKS: Final = 4
MIDDLE: Final = """(() => {{
  const found = document.querySelector({selector});
  found.scrollIntoView({{ block: "center" }});
  const box = found.getBoundingClientRect();
  return [box.x + box.width / 2, box.y + box.height / 2];
}})()"""


class Driver:
    """One window. Clicks and keys are the mouse's and the keyboard's, not calls of the page's."""

    def __init__(self, profile: Path, width: int = 1000, height: int = 900) -> None:
        assert FOUND is not None, "there is no Chromium"
        command = [
            FOUND, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--no-first-run", f"--user-data-dir={profile}", f"--window-size={width},{height}",
            "--remote-debugging-pipe",
        ]  # fmt: skip
        theirs, self._commands = _pipe()
        self._answers, said = _pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-ISc", AT_ITS_PIPES, str(theirs), str(said), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(theirs, said),
        )
        os.close(theirs)
        os.close(said)
        self._number, self._rest, self._session = 0, b"", ""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        found = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = found["sessionId"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._commands)
        os.close(self._answers)
        self._process.kill()
        self._process.wait()

    def open(self, url: str) -> None:
        """Go to a page, and wait for its scripts to have begun."""
        self._call("Page.navigate", url=url)
        self.await_("document.readyState === 'complete'")

    def look(self, expression: str) -> Any:
        """What an expression of JavaScript is in the page, as JSON."""
        found = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def text(self, selector: str) -> str:
        """What can be read in an element; "" where it is hidden."""
        return str(self.look(f"document.querySelector({json.dumps(selector)}).innerText"))

    def await_(self, expression: str) -> None:
        """Wait until an expression is true."""
        deadline = time.monotonic() + PATIENCE_S / 2
        while not self.look(expression):
            assert time.monotonic() < deadline, f"never true: {expression}"
            time.sleep(0.05)

    def click(self, selector: str, held: Callable[[], None] = lambda: None) -> None:
        """Press and let go the mouse's button in the middle of an element that stands still.

        `held` is called while it is pressed.
        """
        x, y = self._middle(selector)
        for kind, then in (("mousePressed", held), ("mouseReleased", lambda: None)):
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
            then()

    def _middle(self, selector: str) -> list[float]:
        # As long as a page is being filled, a place is another element's a moment later.
        middle = MIDDLE.format(selector=json.dumps(selector))
        places = [self.look(middle)]
        deadline = time.monotonic() + PATIENCE_S / 2
        while places[-STILL_LOOKS:] != places[-1:] * STILL_LOOKS:
            assert time.monotonic() < deadline, f"does not stand still: {selector}"
            time.sleep(0.05)
            places.append(self.look(middle))
        return list(places[-1])

    def write(self, text: str) -> None:
        """Type a text where the focus is."""
        self._call("Input.insertText", text=text)

    def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            code, number, text = CODES[key]
            for kind in ("keyDown", "keyUp"):
                self._call(
                    "Input.dispatchKeyEvent", type=kind, key=key, code=code,
                    windowsVirtualKeyCode=number, **({"text": text} if text else {}),
                )  # fmt: skip

    def _call(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            *whole, self._rest = self._rest.split(b"\0")
            self._rest = b"\0".join([*whole[1:], self._rest])
            if not whole:
                more = os.read(self._answers, 1 << 16)
                assert more, "Chromium has ended"
                self._rest += more
                continue
            answer = json.loads(whole[0])
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]


def _pipe() -> tuple[int, int]:
    """Both ends, with numbers that are not those of Chromium's."""
    ends = os.pipe()
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
    for end in ends:
        os.close(end)
    return high[0], high[1]
