"""Dispatch: the next layer for a frame. A layer declares the frames it handles; all others skip it.

A batch would otherwise cross a dozen layers, of which half ignore it.
"""

from __future__ import annotations

from collections.abc import Sequence

from sitestack.model.frame import Header
from sitestack.stack.layer import Layer


class UpRoute(dict[type[Header] | None, int]):
    """Kind of the last header (None: no header) -> index of the next higher layer for it; -1: none.

    Entries are computed on first use; a stack has few kinds of headers.
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
    """Return the routes of frames going up, by the index they come from; the last index is the
    wire.
    """
    return [UpRoute(layers, index) for index in range(len(layers) + 1)]


def routes_down(layers: Sequence[Layer], kind: str) -> list[int]:
    """Return the index of the next layer for a multicast (or unicast) going down, by the previous
    index + 1.

    The application is at index -1, so its entry is the first.
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
