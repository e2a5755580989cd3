"""Transcript of a script, for reading and comparing: packets between named processes.

The same script gives the same lines, so a transcript can be a golden file. It shows headers and
events of the requested kinds, views and deliveries, and the script's own actions (lines with a
star).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from sitestack.model.address import Address
from sitestack.model.events import Event, ViewInstalled
from sitestack.model.frame import Frame, Header
from sitestack.model.message import Batch
from sitestack.model.view import View, ViewId


class Transcript:
    """Lines, and the names that stand for addresses in them."""

    def __init__(self, shown: tuple[type[Header] | type[Event], ...]) -> None:
        self.lines: list[str] = []
        self.names: dict[bytes, str] = {}
        self._shown = shown
        #: The last datagram that has a line: where it came from and went to, its bytes, and the place of the line.
        self._last: tuple[str, list[str], bytes, int] = ("", [], b"", -1)

    def note(self, line: str) -> None:
        """Note an action of the script."""
        self.lines.append(f"* {line}")

    def event(self, name: str, event: Event | Frame) -> None:
        """Note an event or a delivery that came out of a stack."""
        if isinstance(event, Frame) and event.batch is not None:
            self.lines.append(f"{name} delivers {' '.join(texts(event.batch))} from {self.say(event.source)}")
        elif isinstance(event, ViewInstalled):
            self.lines.append(f"{name} installs {self.say(event.view)}")
        elif isinstance(event, self._shown):
            self.lines.append(f"{name}: {self.say(event)}")

    def packet(self, source: str, target: str, data: bytes, frames: Sequence[Frame], prefix: str = "") -> None:
        """Add a datagram that leaves, or is released (see the prefix). Its copies, one a member, share a line."""
        sender, targets, before, place = self._last
        if not prefix and (sender, before) == (source, data) and target not in targets:
            targets.append(target)
            said = self.lines[place].partition(": ")[2]
        else:
            said = ", ".join([each for frame in frames for header in frame.headers if (each := self._header(frame, header))])
            targets, place = [target], len(self.lines)
            if not said:
                return
            self.lines.append("")
        self.lines[place] = f"{prefix}{source} -> {' '.join(targets)}: {said}"
        self._last = (source, targets, data, place)

    def held(self, target: str, data: bytes) -> None:
        """Note that a rule has caught the copy of the last datagram for this receiver."""
        if self._last[2] == data:
            self.lines.append(f"  held for {target}")

    def _header(self, frame: Frame, header: Header) -> str:
        return " ".join([self.say(header), *texts(frame.batch)]) if isinstance(header, self._shown) else ""

    def say(self, value: Any) -> str:
        """Return a value of a header or an event, with names in the place of addresses and without empty fields."""
        match value:
            case Address():
                return self.names.get(bytes(value), repr(value))
            case ViewId():
                return f"{self.say(value.creator)}|{value.counter}"
            case View():
                return f"{self.say(value.id)} {self.say(value.members)}"
            case Batch():
                return " ".join(texts(value))
            case dict():
                return "{" + ", ".join(f"{self.say(key)}: {self.say(each)}" for key, each in value.items()) + "}"
            case tuple() | list():
                return "[" + " ".join(map(self.say, value)) + "]"
        if is_dataclass(value):
            parts = [(each.name, getattr(value, each.name)) for each in fields(value)]
            return " ".join([type(value).__name__, *[f"{name}={self.say(part)}" for name, part in parts if part]])
        return str(value)


def texts(batch: Batch | None) -> list[str]:
    """The payloads of a batch as text."""
    return [] if batch is None else [payload.decode(errors="replace") for payload in batch.payloads()]
