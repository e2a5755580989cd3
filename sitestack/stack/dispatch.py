"""Which layer sees a frame next: a layer says which frames it wants to see, and all others pass it without a call.

A batch would cross a dozen layers on its way, of which half have nothing to do with it.
"""

from __future__ import annotations

from collections.abc import Sequence

from sitestack.model.frame import Header
from sitestack.stack.layer import Layer


class UpRoute(dict[type[Header] | None, int]):
    """Kind of the last header (None: no header) -> the place of the next layer above that sees such a frame; -1: none does.

    Filled as it is asked. The kinds of headers of a stack are few.
    """

    def __init__(self, layers: Sequence[Layer], index: int) -> None:
        super().__init__()
        self._above = layers[:index]

    def __missing__(self, kind: type[Header] | None) -> int:
        place = len(self._above) - 1
        while place >= 0 and not _sees_up(self._above[place], kind):
            place -= 1
        self[kind] = place
        return place


def routes_up(layers: Sequence[Layer]) -> list[UpRoute]:
    """By the place from which a frame goes up; the last is the wire."""
    return [UpRoute(layers, index) for index in range(len(layers) + 1)]


def routes_down(layers: Sequence[Layer], kind: str) -> list[int]:
    """By the place from which a multicast or a unicast goes down, and one, as the application's is -1: who sees it next."""
    bottom = len(layers)
    ways = [bottom] * (bottom + 1)
    for index in range(bottom - 1, -1, -1):
        ways[index] = index if _sees_down(layers[index], kind) else ways[index + 1]
    return ways


def _sees_up(layer: Layer, kind: type[Header] | None) -> bool:
    if type(layer).up is Layer.up:
        return False
    return layer.FRAMES_UP == "all" or kind in layer.HEADERS.values()


def _sees_down(layer: Layer, kind: str) -> bool:
    return type(layer).down is not Layer.down and layer.FRAMES_DOWN in ("all", kind)
