"""What a client says and understands: requests, answers, events, and when to try which node again.

Pure: the clients bring connections and time.
"""

from __future__ import annotations

import base64
import json
import secrets
import ssl
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from urllib.parse import urlsplit

NDJSON = "application/x-ndjson"
#: Seconds for which a message is repeated. Members know a key for an hour.
GIVE_UP_S = 1_800.0
#: Seconds without a byte after which a node is given up. A stream has a comment every 15 s.
SILENCE_S = 30.0
#: Seconds to connect: all machines of a site may be gone.
CONNECT_S = 5.0
#: Seconds before another node is tried, unless the answer says how long.
PAUSE_S = 0.2
#: Maximum messages and bytes of one request.
BATCH_MESSAGES, BATCH_BYTES = 500, 1 << 20
#: Maximum keys, and senders, by which repeated messages are recognised.
KEYS_MAX = 65_536
_AGAIN = (408, 429)


class Refused(Exception):
    """A node refuses this for good, or no node has a trusted certificate."""


class NotPublished(Exception):
    """A message was refused, or not accepted in time: then its fate is unknown."""

    def __init__(self, key: str, why: str) -> None:
        super().__init__(f"{key}: {why}" if key else why)
        self.key = key


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to publish. With the same key it is shown once, however often it is published."""

    payload: bytes
    key: str = ""
    scope: Literal["all", "site"] = "all"
    headers: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Published:
    """A message that the answering node has delivered."""

    #: Site and UUID of the sender, scope, number: the same at every node.
    id: tuple[str, str, str, int]
    key: str
    #: Whether the message had been published before.
    repeated: bool


@dataclass(frozen=True, slots=True)
class Event:
    """An event of `GET /events`: its kind, its id at the node, and its JSON object."""

    kind: str
    id: str
    about: dict[str, Any]

    @property
    def payload(self) -> bytes:
        """The payload of a message."""
        text = self.about.get("text")
        return base64.b64decode(self.about["base64"]) if text is None else text.encode()


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    url: str
    headers: dict[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, or the part that arrived. Status 0: none did."""

    status: int = 0
    retry_after: str | None = None
    body: bytes = b""
    #: Why the certificate of the node is not trusted.
    untrusted: str = ""

    @property
    def wait_s(self) -> float:
        """Seconds before the next attempt."""
        after = self.retry_after or ""
        return float(after) if after.isdecimal() else PAUSE_S

    @property
    def why(self) -> str:
        if self.untrusted:
            return f"the node's certificate is not trusted: {self.untrusted}"
        try:
            return f"{self.status}: {json.loads(self.body)['error']}"
        except (ValueError, TypeError, LookupError):
            return f"{self.status}: no reason is given" if self.status else "no answer"


def unanswered(error: BaseException | None, handled: BaseException | None = None) -> Answer:
    """Return what the error of a request amounts to. `handled`: by the application meanwhile."""
    while error is not None and error is not handled:
        if isinstance(error, ssl.SSLCertVerificationError):
            return Answer(untrusted=error.verify_message)
        error = error.__cause__ or error.__context__
    return Answer()


#: The client makes a request or waits some seconds, and sends back the answer.
Steps = Generator[Request | float, Answer | None, list[Published | NotPublished]]


def is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        is_fit = text.startswith(("http://", "https://")) and parts.hostname and parts.port != 0 and "@" not in parts.netloc
    except ValueError:
        return False
    return bool(is_fit) and text.isprintable() and " " not in text


class Nodes:
    """Nodes, of which one at a time is asked."""

    def __init__(self, urls: Sequence[str], token: str) -> None:
        self._urls = [url.rstrip("/") for url in urls]
        if not self._urls or not all(map(is_url, self._urls)):
            shown = [url.rpartition("@")[2] for url in urls]  # without a password
            raise ValueError(f"nodes have URLs such as http://127.0.0.1:7800, not {', '.join(shown)}")
        if not all("!" <= each <= "~" for each in token):
            raise ValueError("a token has visible ASCII characters, and no line end")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._untrusted: set[str] = set()

    def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> Request:
        return Request(method, f"{self._urls[0]}{path}", {**self._headers, **headers}, body)

    def are_untrusted(self, answer: Answer) -> bool:
        """Note an answer; return whether no node has a trusted certificate."""
        if answer.untrusted:
            self._untrusted.add(self._urls[0])
        elif answer.status:
            self._untrusted.discard(self._urls[0])
        return self._untrusted.issuperset(self._urls)

    def go_on(self) -> None:
        self._urls.append(self._urls.pop(0))


def publish(nodes: Nodes, messages: Iterable[Outgoing], give_up_s: float, now: Callable[[], float]) -> Steps:
    """Publish messages in order, each until it is delivered or refused for good.

    Return a result for each. Messages without an answer are repeated with their keys, at the next
    node.
    """
    left = [each if each.key else replace(each, key=secrets.token_hex(16)) for each in messages]
    results: dict[int, Published | NotPublished] = {}
    begun: dict[int, float] = {}
    places = [*range(len(left))]
    while places:
        asked, body = _next_lines(left, places)
        begun = {at: begun.get(at, now()) for at in asked}  # repeated messages precede new ones
        answer = yield nodes.request("POST", "/messages", {"Content-Type": NDJSON}, body)
        assert answer is not None
        untrusted, why = nodes.are_untrusted(answer), answer.why
        lasting = untrusted or (200 < answer.status < 500 and answer.status not in _AGAIN)
        for at in asked if lasting else ():
            results[at] = NotPublished(left[at].key, why)
        for at, line in zip(asked, answer.body.split(b"\n")[:-1] if answer.status == 200 else (), strict=False):
            status, result = _read_line(line, left[at].key)
            if status in _AGAIN or status >= 500:
                why = str(result)
            else:
                results[at] = result
        before, places = places, [at for at in places if at not in results]
        if len(before) - len(places) < len(asked):
            if now() + answer.wait_s >= begun[places[0]] + give_up_s:
                late = f"not taken in {give_up_s:g} s, at last: {why}"
                return [results.get(at) or NotPublished(each.key, late) for at, each in enumerate(left)]
            nodes.go_on()
            yield answer.wait_s
    return [results[at] for at in range(len(left))]


def _next_lines(messages: Sequence[Outgoing], places: Sequence[int]) -> tuple[list[int], bytes]:
    """Return the messages of one request, and its body."""
    lines, size = list[bytes](), 0
    for at in places[:BATCH_MESSAGES]:
        each = messages[at]
        about: dict[str, Any] = {"base64": _base64(each.payload), "key": each.key, "scope": each.scope}
        if each.headers:
            about["headers"] = {name: _base64(value) for name, value in each.headers.items()}
        line = json.dumps(about).encode() + b"\n"
        if lines and size + len(line) > BATCH_BYTES:
            break
        lines.append(line)
        size += len(line)
    return [*places[: len(lines)]], b"".join(lines)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _read_line(line: bytes, key: str) -> tuple[int, Published | NotPublished]:
    try:
        about = json.loads(line)
        if about["status"] == 200:
            return 200, Published(tuple(about["id"]), about["key"], about["repeated"])
        return int(about["status"]), NotPublished(key, f"{about['status']}: {about['error']}")
    except (ValueError, TypeError, LookupError):
        return 502, NotPublished(key, "the answer is not a node's")


class Follower:
    """Events of several nodes in turn: each message once, resumed after the last read one."""

    def __init__(self, nodes: Nodes, after: str = "", *, oldest: bool = False, messages: bool = True) -> None:
        self._nodes = nodes
        self._last = after
        self._query = "?" + "&".join([*["from=oldest"] * oldest, f"messages={'yes' if messages else 'no'}"])
        self._fields: dict[str, str] = {}
        #: (site, origin, scope), or (process of the node, "", scope) -> last number.
        self._reached: OrderedDict[tuple[str, str, str], int] = OrderedDict()
        self._keys: OrderedDict[str, None] = OrderedDict()

    def request(self) -> Request:
        self._fields = {}
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": self._last} if self._last else {})}
        return self._nodes.request("GET", f"/events{self._query}", headers)

    def take(self, line: str) -> Event | None:
        """Read a line without its end. Return an event once it is complete and new. Raises ValueError."""
        if line:
            name, _, value = line.partition(":")
            self._fields[name] = value.removeprefix(" ")
            return None
        fields, self._fields = self._fields, {}
        event = None
        try:
            if "data" in fields:
                event = Event(fields["event"], fields["id"], json.loads(fields["data"]))
                event = event if event.kind != "message" or self._is_new(event) else None
        except (LookupError, TypeError, RecursionError):
            raise ValueError("this is no event of a node") from None
        self._last = fields.get("id", self._last)
        return event

    def _is_new(self, event: Event) -> bool:
        """Return whether a message is new: other nodes show older ones, and other copies."""
        site, origin, scope, number = event.about["id"]
        if scope in ("unicast", "oob"):  # numbered for each target
            site, _, place = event.id.partition("-")
            origin, number = "", int(place)
        if number <= self._reached.get((site, origin, scope), 0):
            return False
        self._reached[site, origin, scope] = number
        self._reached.move_to_end((site, origin, scope))
        key = event.about.get("key")
        is_new = key is None or key not in self._keys
        if key is not None:
            self._keys.setdefault(key)
        for table in (self._keys, self._reached):
            if len(table) > KEYS_MAX:
                table.popitem(last=False)
        return is_new


def check_stream(nodes: Nodes, answer: Answer) -> None:
    """Raise Refused if no repetition helps."""
    if nodes.are_untrusted(answer) or (400 <= answer.status < 500 and answer.status not in _AGAIN):
        raise Refused(answer.why)
