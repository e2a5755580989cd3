"""Parts of the directed stories: sites with one message a batch, the verdict, golden transcripts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeVar

from relay_lab.sim.world import World
from sitestack.config import Order, ProtocolsConfig, SiteConfig
from sitestack.layers.batching import BatchingConfig
from sitestack.model.events import Event
from sitestack.model.frame import Header
from sitestack.promises import History, check_all
from sitestack.stack.layer import Layer
from tests.harness.script import Script, site_maker

L = TypeVar("L", bound=Layer)

TRANSCRIPTS = Path(__file__).parents[1] / "transcripts"
#: Seconds: enough for every answer, and less than any timer.
SOON = 0.02
#: Seconds until all members know each other and nothing is left of the last view.
SETTLED = 2.0


def one_each(site: str, order: Order = "total") -> SiteConfig:
    """Return a site with one message a batch, so that a story can tell messages apart."""
    return SiteConfig(site=site, order=order, protocols=ProtocolsConfig(batching=BatchingConfig(batch_count_max=1)))


def site(
    *names: str,
    shown: tuple[type[Header] | type[Event], ...] = (),
    order: Order = "total",
    seed: int = 1,
    config: SiteConfig | None = None,
) -> Script:
    """A script with one site of these members, the first of which coordinates; the transcript begins when it stands."""
    script = Script(World(seed, site_maker(config or one_each("NYC", order))), *shown)
    script.site("NYC", *names)
    script.run(SETTLED)
    script.transcript.lines.clear()
    return script


def layer(script: Script, name: str, kind: type[L]) -> L:
    """The layer of this kind of a process."""
    return next(each for each in script[name].stack.layers if isinstance(each, kind))


def say(script: Script, name: str, *words: str) -> None:
    """Send these words, each in a separate datagram, shortly one after the other."""
    for word in words:
        script.send(name, word)
        script.run(SOON)


def numbered(letter: str, first: int, last: int) -> list[str]:
    """c1, c2 and so on."""
    return [f"{letter}{n}" for n in range(first, last + 1)]


def verdict(script: Script, *, order: Order = "total", tells: str = "") -> None:
    """Let the story come to rest, and assert that every promise holds over the journals; `tells`: its transcript until now."""
    if tells:
        told(script, tells)
    script.run(2 * SETTLED)
    assert_sound(script.world, *script.transcript.lines, order=order)


def assert_sound(world: World, *lines: str, order: Order = "total") -> None:
    """Assert that every promise holds over the journals of a world at rest. `lines`: its story, for the failure."""
    histories = [History.of(process.records, running=process.alive) for process in world.processes]
    violations = check_all(histories, quiescent=True, total_order=order == "total").violations
    assert not violations, "\n".join([str(violations[0]), *lines])


def told(script: Script, name: str) -> None:
    """Compare the transcript with that in tests/transcripts. To accept a new one, run with WRITE_TRANSCRIPTS=1 and read it."""
    path = TRANSCRIPTS / f"{name}.txt"
    text = "\n".join(script.transcript.lines) + "\n"
    if os.environ.get("WRITE_TRANSCRIPTS"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
