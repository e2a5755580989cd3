"""The habits that the test of prose counts, their goals, and the rooms."""

from __future__ import annotations

import re
from typing import NamedTuple


class Habit(NamedTuple):
    """A way of writing that makes a reader translate."""

    #: Matches in text whose code, quotes and identifiers are masked.
    pattern: re.Pattern[str]
    #: Upper bound per 1,000 words.
    goal: float
    #: What to write instead.
    remedy: str


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_VERB = (
    r"(?:is|are|was|were|has|have|had|do|does|did|can|cannot|could|may|might|must|will|would|should|"
    r"comes?|came|goes|went|lies|stands?|stays?|remains?|needs?|wants?|makes?|made|counts?|"
    r"fits?|leaves?|knows?|holds?|gets?|sends?|arrives?|waits?|takes?|joins?|dies|died|decides?|relays?)"
)
_SUBJECT = r"(?:it|its|they|their|he|she|we|our|you|your|i|the|a|an|this|that|these|those|each|one|no|all|other|others)"
#: After these words "who" has no noun.
_BARE = (
    r"(?:^|[.,;:(|\n]\s*|"
    r"\b(?:of|to|by|from|for|with|and|or|but|that|if|as|than|on|at|in|when|while|is|are|not|so|then|say|says)\s+)"
)

#: "A socket of its own" is a habit, "members of its own site" is not: a noun follows. "Each site has an order of its own" is
#: the wording of a promise.
_LINKING = r"(?:and|or|that|which|in|on|for|with|to|by|at|as|if|so|but|when|from|is|are|was|were|has|can|of|beside|besides)"

HABITS = {
    "clause": Habit(
        _words(rf"\b(?:what|whatever)\s+(?:\w+ly\s+|else\s+|\x00\s+)?(?:{_VERB}|{_SUBJECT})\b(?![^.|\n]*\?)"),
        1.5,
        "name the noun: held entries, not what is held",
    ),
    "says": Habit(_words(r"\b(?:say|says|said|saying)\b"), 1.0, "reports, states, names, is documented as"),
    "nobody": Habit(_words(r"\b(?:nobody|everybody|somebody|anybody)\b"), 0.3, "no member, all members, a caller"),
    "who": Habit(_words(rf"\bwho(?:m)?ever\b|{_BARE}who\s+(?:\w+\s+)?{_VERB}\b"), 0.2, "name the member, the caller"),
    "told": Habit(_words(r"\btold\b"), 0.2, "notified of, receives, is sent"),
    "go on": Habit(_words(r"\b(?:go|goes|going|gone|went)\s+on\b"), 0.2, "continue"),
    "own": Habit(
        _words(rf"(?<!order )\bof\s+(?:its|their|his|our|my|your)\s+own\b(?!\s+(?!{_LINKING}\b)[a-z\x00])"),
        0.2,
        "separate, private, or leave it out",
    ),
}

WORDS_IN_A_SENTENCE_MAX = 30

#: Markdown that people read. The change log keeps the words of its time.
PAGES = ("*.md", ":!CHANGELOG.md")

#: Pages written by a command from texts that are judged, or quoted, at their source.
GENERATED = {"docs/reference/configuration.md", "docs/reference/conformance.md"}

#: A module counts in the longest of these that is a folder above it; a page counts in "docs".
ROOMS = (
    "examples",
    "lab/relay_lab",
    "lab/relay_lab/bench",
    "lab/relay_lab/drills",
    "lab/relay_lab/simulation",
    "relay",
    "relay/cli",
    "relay/gateway",
    "relay/journal",
    "relay/layer",
    "relay/node",
    "relay/replica",
    "relay/router",
    "sitestack",
    "sitestack/channel",
    "sitestack/layers",
    "sitestack/promises",
    "sitestack/seal",
    "sitestack/stack",
    "sitestack/transport",
    "sitestack/wire",
    "spark/pyspark_relay",
    "tests",
    "tests/relay",
    "tests/simulation",
    "tests/sitestack",
)
