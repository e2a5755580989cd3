"""Dispatch: which layer sees a frame next. A layer declares the frames that it wants to see; all others skip it.

A batch would cross a dozen layers on its way, of which half have nothing to do with it.
"""

from __future__ import annotations

from collections.abc import Sequence

from sitestack.model.frame import Header
from sitestack.stack.layer import Layer


class UpRoute(dict[type[Header] | None, int]):
    """Kind of the last header (None: no header) -> the place of the next layer above that sees such a frame; -1: none does.

    Entries are made when first asked for; a stack has few kinds of headers.
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
    """The routes of frames going up, by the place that they come from; the last place is the wire."""
    return [UpRoute(layers, index) for index in range(len(layers) + 1)]


def routes_down(layers: Sequence[Layer], kind: str) -> list[int]:
    """The place of the next layer that sees a multicast (or unicast) going down, by one plus the place that it comes from.

    The application is at place -1, so its entry is the first.
    """
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
