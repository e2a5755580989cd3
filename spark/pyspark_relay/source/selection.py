"""The rows that a reader's options select: journals, kinds and time.

Filters of a query are not pushed down. Spark would narrow the reader permanently: a second use of
the same table with another filter would silently miss rows (seen with PySpark 4.3).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

from relay.journal.encoding import KINDS
from sitestack.journal import records
from sitestack.model.errors import ConfigurationError

#: An offset of a stream, as Spark stores it.
Offset: TypeAlias = dict[str, Any]

#: Key, or end of a key, of the beginning of a query's first batch, in its end: when Spark repeats that
#: batch, `latest` is later.
BEGAN = " began"

#: Record class -> its name in the column `kind`, as in `relay journal cat`.
KIND_NAMES: dict[type[records.Record], str] = {
    kind: "gview" if kind is records.GlobalView else kind.__name__.lower() for kind in KINDS.values()
}
#: All kinds of rows; `segment` and `problem` have no records.
ALL_KINDS = frozenset((*KIND_NAMES.values(), "segment", "problem"))
#: The options of the source, besides `path`; option names are case-insensitive.
OPTIONS = (
    *("rows", "site", "node", "kinds", "since", "until", "payloads"),
    *("maxbytespertrigger", "startingoffsets", "endingoffsets"),
)
_OF_RECORDS = ("kinds", "payloads")

_FOREVER_NS = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Selection:
    """Selected rows and journals. None selects all."""

    sites: frozenset[str] | None = None
    nodes: frozenset[str] | None = None
    kinds: frozenset[str] = ALL_KINDS
    #: Wall clock, inclusive.
    since_ns: int = -_FOREVER_NS
    until_ns: int = _FOREVER_NS
    payloads: bool = False
    #: Whether a row is a message of one node's deliveries, not a record.
    is_messages: bool = False

    @property
    def record_classes(self) -> list[type[records.Record]]:
        return [kind for kind, name in KIND_NAMES.items() if name in self.kinds]

    @property
    def has_time(self) -> bool:
        return self.since_ns > -_FOREVER_NS or self.until_ns < _FOREVER_NS

    def has_moment(self, wall_ns: int) -> bool:
        return self.since_ns <= wall_ns <= self.until_ns

    def require_one_node(self, nodes: Iterable[tuple[str, str]]) -> None:
        """Raise ConfigurationError if rows are messages and there are journals of several nodes."""
        names = sorted({f"{node}@{site}" for site, node in nodes})
        if self.is_messages and len(names) > 1:
            raise ConfigurationError(
                f"Source relay: each of the journals of {', '.join(names)} has the messages that its node delivered; "
                'name one with .option("site", ...).option("node", ...), or use .option("rows", "records").'
            )

    def has_journal(self, site: str, node: str) -> bool:
        wanted = ((site, self.sites), (node, self.nodes))
        return all(names is None or name in names for name, names in wanted)


def parse_selection(options: Mapping[str, str]) -> Selection:
    """Parse the options of a reader. Raises ConfigurationError for an unknown or invalid one."""
    unknown = sorted(options.keys() - {*OPTIONS, "path", "paths"})
    if unknown:
        raise ConfigurationError(f"Source relay has no option {', '.join(unknown)}; it has {', '.join(OPTIONS)}.")
    is_messages = has_messages(options)
    wrong = [name for name in _OF_RECORDS if is_messages and name in options]
    if wrong:
        raise ConfigurationError(f'Source relay: option {wrong[0]} needs .option("rows", "records").')
    kinds = _names(options.get("kinds")) or ALL_KINDS
    if kinds - ALL_KINDS:
        raise ConfigurationError(f"Source relay, option kinds: {', '.join(sorted(kinds - ALL_KINDS))} is no kind of row.")
    return Selection(
        sites=_names(options.get("site")),
        nodes=_names(options.get("node")),
        kinds=kinds,
        since_ns=_time("since", options, -_FOREVER_NS),
        until_ns=_time("until", options, _FOREVER_NS),
        payloads=is_true(options.get("payloads")),
        is_messages=is_messages,
    )


def has_messages(options: Mapping[str, str]) -> bool:
    """Return whether the rows are messages, not records. Raises ConfigurationError."""
    rows = options.get("rows", "messages")
    if rows not in ("messages", "records"):
        raise ConfigurationError(f"Source relay, option rows: must be messages or records, not {rows!r}.")
    return rows == "messages"


def parse_offsets(options: Mapping[str, str], name: str, *words: str) -> str | Offset:
    """Return one of the words, by default the first, or the offsets in a JSON option.

    Raises ConfigurationError.
    """
    text = options.get(name.lower(), words[0])
    if text in words:
        return text
    try:
        offset = json.loads(text)
    except ValueError:
        offset = None
    if not isinstance(offset, dict) or not (_is_of_site if "url" in options else _is_of_journals)(offset):
        raise ConfigurationError(
            f"Source relay, option {name}: must be {' or '.join(words)}, or the offsets of a query's progress as JSON."
        )
    return offset


def _is_of_site(offset: Offset) -> bool:
    return isinstance(offset.get("id"), str) and isinstance(offset.get("known"), dict)


def _is_of_journals(offset: Offset) -> bool:
    return all(isinstance(place, dict) and place.keys() == {"segment", "offset"} for place in offset.values())


def is_true(value: str | None) -> bool:
    return (value or "").strip().lower() in ("true", "1", "yes")


def _names(value: str | None) -> frozenset[str] | None:
    return None if value is None else frozenset(part.strip() for part in value.split(","))


def _time(name: str, options: Mapping[str, str], default: int) -> int:
    text = options.get(name)
    if text is None:
        return default
    try:
        return _nanoseconds(datetime.fromisoformat(text))
    except ValueError as error:
        raise ConfigurationError(
            f"Source relay, option {name}: {text!r} is not a time such as 2026-01-31T12:00:00Z."
        ) from error


def _nanoseconds(value: datetime) -> int:
    moment = value if value.tzinfo else value.replace(tzinfo=UTC)
    elapsed = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (elapsed.days * 86_400 + elapsed.seconds) * 1_000_000_000 + elapsed.microseconds * 1_000
