"""The page of all keys agrees with the code, and explains every key."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from relay.node.config.config_keys import Key, find_comments, find_keys
from relay.node.config.settings import DERIVED, NodeConfig
from sitestack.model.address import Physical
from tests.docs.configuration_page import reference

PAGE = Path(__file__).parent.parent.parent / "docs" / "reference" / "configuration.md"
KEYS = list(find_keys(NodeConfig, DERIVED))


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), "run 'make reference'"


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.path)
def test_every_key_is_explained_in_sentences(key: Key) -> None:
    assert key.what.endswith(".")
    assert "None" not in key.what


def test_every_key_has_its_row_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.count("\n| `") == sum(not key.is_section for key in KEYS)
    assert text.count("\n## ") == 1 + sum(key.is_section for key in KEYS)


@dataclass(frozen=True, slots=True)
class Inner:
    """What is inside.

    And more.
    """

    #: Which way, as a trap
    #: says (S7, U4).
    way: Literal["up", "down"] = "up"
    places: dict[str, tuple[Physical, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outer:
    """All."""

    inner: Inner = field(default_factory=Inner)
    #: How much.
    window_bytes_max: int | None = None
    #: How often.
    look_interval_s: float = 0.5
    #: How many.
    attempts: int = 3


@dataclass(frozen=True, slots=True)
class Heir(Outer):
    """It inherits."""

    #: Mine.
    attempts: int = 4


def test_a_key_is_read_from_its_field_and_the_comment_above_it() -> None:
    assert list(find_keys(Heir, {"attempts": "nothing"})) == [
        Key("inner", "What is inside."),
        Key("inner.way", "Which way, as a trap says.", Literal["up", "down"], "up"),
        Key("inner.places", "", dict[str, tuple[Physical, ...]], {}),
        Key("window_bytes_max", "How much.", int | None, None),
        Key("look_interval_s", "How often.", float, 0.5),
    ]
    assert find_comments(Heir)["attempts"] == "Mine."
