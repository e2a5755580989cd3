"""CPU time of each layer, the codec and the transport: all calls are timed, in a run that measures nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from sitestack.stack.layer import Layer
from sitestack.transport.udp import UdpTransport
from sitestack.wire.codec import Codec

_LAYER_CALLS = ("up", "down", "expire", "flush", "deadline")
_CODEC_CALLS = ("decode", "encode_frame", "encode_datagram")
_TRANSPORT_CALLS = ("receive", "send")


class Profile:
    """CPU seconds of each part of the stack since the last `take`. A call inside another counts for its own part only."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._inner = 0.0

    def install(self) -> None:
        for layer in _subclasses(Layer):
            self._wrap(layer, _LAYER_CALLS, layer.name)
        self._wrap(Codec, _CODEC_CALLS, "codec")
        self._wrap(UdpTransport, _TRANSPORT_CALLS, "transport")

    def take(self) -> dict[str, float]:
        """The seconds so far, and start again."""
        seconds, self._seconds = self._seconds, {}
        return seconds

    def _wrap(self, kind: type, calls: tuple[str, ...], part: str) -> None:
        for call in calls:
            if call in vars(kind):
                setattr(kind, call, self._timed(vars(kind)[call], part))

    def _timed(self, function: Callable[..., Any], part: str) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            outer, self._inner = self._inner, 0.0
            started = time.thread_time()
            try:
                return function(*arguments)
            finally:
                spent = time.thread_time() - started
                self._seconds[part] = self._seconds.get(part, 0.0) + spent - self._inner
                self._inner = outer + spent

        return timed


def _subclasses(kind: type[Layer]) -> Iterator[type[Layer]]:
    for each in kind.__subclasses__():
        yield each
        yield from _subclasses(each)
