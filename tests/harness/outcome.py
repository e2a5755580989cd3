"""Outcome: the events and deliveries at the top of a member's layers, with the readings that tests need."""

from __future__ import annotations

from typing import TypeVar

from sitestack.model.address import Address
from sitestack.model.events import Event, Undeliverable, ViewInstalled
from sitestack.model.frame import Frame
from sitestack.model.message import Batch
from tests.harness.addresses import name_of
from tests.harness.messages import texts_of

E = TypeVar("E", bound=Event)


class Outcome:
    """Events and deliveries, in order."""

    def __init__(self) -> None:
        self.events: list[Event | Frame] = []

    def of(self, kind: type[E]) -> list[E]:
        """The events of this kind."""
        return [each for each in self.events if isinstance(each, kind)]

    @property
    def frames(self) -> list[Frame]:
        return [each for each in self.events if isinstance(each, Frame)]

    @property
    def sources(self) -> list[Address]:
        """The sources of the deliveries, in order."""
        return [each.source for each in self.frames]

    @property
    def batches(self) -> list[Batch]:
        return [each.batch for each in self.frames if each.batch is not None]

    @property
    def delivered(self) -> list[tuple[str, bytes]]:
        """(sender, payload) in order of delivery."""
        frames = [(frame, frame.batch) for frame in self.frames]
        return [
            (name_of(frame.source), payload) for frame, batch in frames if batch is not None for payload in batch.payloads()
        ]

    def payloads(self, sender: str) -> list[bytes]:
        """The payloads delivered of one sender, in order."""
        return [payload for source, payload in self.delivered if source == sender]

    @property
    def words(self) -> list[str]:
        """The payloads delivered of all senders, as text, in order."""
        return [payload.decode() for batch in self.batches for payload in batch.payloads()]

    @property
    def texts(self) -> dict[str, list[str]]:
        """The payloads delivered, as text, by sender and in order."""
        texts: dict[str, list[str]] = {}
        for sender, payload in self.delivered:
            texts.setdefault(sender, []).append(payload.decode())
        return texts

    def in_view(self) -> list[Frame]:
        """The frames delivered since the last view."""
        views = [at for at, event in enumerate(self.events) if isinstance(event, ViewInstalled)]
        return [each for each in self.events[max(views, default=0) :] if isinstance(each, Frame)]

    def firsts(self, sender: str) -> list[int]:
        """The numbers of the batches of one sender that were delivered since the last view."""
        return [each.batch.first for each in self.in_view() if each.batch and name_of(each.source) == sender]

    @property
    def undeliverable(self) -> list[str]:
        """The messages that were given up."""
        return [text for event in self.of(Undeliverable) for frame in event.frames for text in texts_of(frame)]
