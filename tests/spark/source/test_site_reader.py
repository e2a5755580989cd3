"""A source from a running site, without Spark: each message once through a kill of a node and of the reader."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from pyspark_relay.source import event_follower
from pyspark_relay.source.columns import MESSAGES
from pyspark_relay.source.data_source import RelayDataSource
from pyspark_relay.source.event_follower import SourceError
from pyspark_relay.source.selection import Offset
from pyspark_relay.source.site_reader import SiteStreamReader
from tests.harness.http_server import QuietHandler, serving
from tests.harness.node_sites import LIMIT_S, NodeSites, node_sites
from tests.harness.sockets import free_port
from tests.spark.source.test_source import rows_in


@contextmanager
def stream(urls: list[str], **options: str) -> Iterator[SiteStreamReader]:
    found = RelayDataSource({"url": ",".join(urls), **options}).streamReader(MESSAGES)
    assert isinstance(found, SiteStreamReader)
    yield found
    found.stop()


def batches(reader: SiteStreamReader, start: Offset, count: int) -> Iterator[tuple[Offset, list[dict[str, Any]]]]:
    """Micro-batches, until so many rows have come."""
    ends = time.monotonic() + LIMIT_S
    while count > 0:
        assert time.monotonic() < ends
        end = json.loads(json.dumps(reader.latestOffset(start)))
        if end != start:
            rows = between(reader, start, end)
            count -= len(rows)
            yield end, rows
            reader.commit(end)
            start = end


def between(reader: SiteStreamReader, start: Offset, end: Offset) -> list[dict[str, Any]]:
    return rows_in(reader, reader.partitions(start, end))  # type: ignore[arg-type]


def texts(rows: list[dict[str, Any]]) -> list[str]:
    return [row["value"].decode() if row["gap"] is None else row["gap"]["reason"] for row in rows]


def post(sites: NodeSites, name: str, *numbers: int) -> list[str]:
    for number in numbers:
        sites.post(name, str(number))
    return [str(number) for number in numbers]


def follow(reader: SiteStreamReader, start: Offset, count: int) -> tuple[Offset, list[str]]:
    """The end and the rows of these micro-batches."""
    found = list(batches(reader, start, count))
    return found[-1][0], [row for _, rows in found for row in texts(rows)]


@pytest.mark.slow
def test_each_message_once_through_a_kill_of_the_node_and_a_restart_of_the_reader(directory: Path) -> None:
    with node_sites(directory, {"NYC": "AB", "SFO": "D"}) as sites:
        relay, second = sites.status("A")["view"]["members"]
        urls = [sites.urls[relay], sites.urls[second]]
        sent = post(sites, relay, *range(5))
        with stream(urls) as reader:
            start = reader.initialOffset()
            first, rows = follow(reader, start, 5)
            sent += post(sites, second, 5, 6)
            at, more = follow(reader, first, 2)
            sites.kill(relay)
            sent += post(sites, second, 7, 8)
            at, rest = follow(reader, at, 2)
            assert rows + more + rest == sent
        with stream(urls) as restarted:
            # A batch of the killed node is fetched again from the other one.
            assert texts(between(restarted, start, first)) == sent[:5]
            assert texts(between(restarted, first, at)) == sent[5:]
            sent += post(sites, second, 9)
            assert follow(restarted, at, 1)[1] == ["9"]
        table = RelayDataSource({"url": urls[1], "endingOffsets": json.dumps(at)}).reader(MESSAGES)
        assert texts(rows_in(table, table.partitions())) == sent[:-1]
        whole = RelayDataSource({"url": urls[1]}).reader(MESSAGES)
        assert texts(rows_in(whole, whole.partitions())) == sent
        with stream(urls, startingOffsets="latest") as latest:
            begin = latest.initialOffset()
            assert latest.latestOffset(begin) == begin
            post(sites, second, 10)
            assert follow(latest, begin, 1)[1] == ["10"]
        with (
            stream([sites.urls["D"]]) as foreign,
            pytest.raises(SourceError, match="is a node of SFO, not of NYC: read each site with its own query"),
        ):
            follow(foreign, at, 1)


@pytest.mark.slow
def test_messages_that_no_node_has_any_more_are_gaps_when_a_batch_is_repeated(directory: Path) -> None:
    with node_sites(directory, {"NYC": "A"}) as sites:
        post(sites, "A", 1)
        with stream([sites.urls["A"]], timeout="3") as reader:
            start = reader.initialOffset()
            end, rows = follow(reader, start, 1)
            [stream_name] = end["known"]
            more = {**end, "known": {stream_name: 3, "NYC/gone/all": 2}}
            found = between(reader, start, more)
    assert (rows, texts(found)) == (["1"], ["1", "another_process", "another_process"])
    assert [(row["sender_uuid"], row["gap"]["first"], row["gap"]["last"]) for row in found[1:]] == [
        (stream_name.split("/")[1], 2, 3),
        ("gone", 1, 2),
    ]


def test_nodes_that_do_not_answer_raise_a_source_error() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with stream([url], timeout="0.2") as reader, pytest.raises(SourceError, match="No events within"):
        follow(reader, reader.initialOffset(), 1)


def table(url: str, **options: str) -> list[dict[str, Any]]:
    reader = RelayDataSource({"url": url, **options}).reader(MESSAGES)
    return rows_in(reader, reader.partitions())


Answer = Callable[[QuietHandler, Event], None]


@contextmanager
def node(answer: Answer, answers_after_s: float = 0.0) -> Iterator[str]:
    """A node of NYC whose streams are written by `answer`, with the event that ends them."""
    ends = Event()

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            ends.wait(answers_after_s)
            self.send_response(200)
            self.send_header("Relay-Site", "NYC")
            self.end_headers()
            with suppress(OSError):  # a reader may want the first line alone
                answer(self, ends)
                ends.wait(LIMIT_S)

    with serving(Handler) as url:
        try:
            yield url
        finally:
            ends.set()


def said(n: int, text: str, run: str = "x", **about: Any) -> bytes:
    """The event `n`: of a message, its number `n` too."""
    event = {"event": "message", "time": 1.5, "from": "A", "id": ["NYC", "aa", "all", n], "text": text, **about}
    return f"event: {event['event']}\nid: {run}-{n}\ndata: {json.dumps(event)}\n\n".encode()


def holding(text: str, **about: Any) -> Answer:
    """It holds one event, `x-2`: of a message, its number 1."""

    def answer(handler: QuietHandler, _: Event) -> None:
        handler.wfile.write(b"id: x-1\n\n" + said(2, text, **{"id": ["NYC", "aa", "all", 1], **about}))

    return answer


def test_a_table_has_the_messages_of_a_node_that_answers_late() -> None:
    with node(holding("late"), 1.5) as url:
        assert texts(table(url)) == ["late"]


def test_a_table_of_nodes_that_do_not_answer_is_an_error_and_not_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_follower, "SILENCE_S", 0.5)
    with node(holding(""), LIMIT_S) as url, pytest.raises(SourceError, match="No events within"):
        table(url, timeout="2")


def test_a_batch_that_no_node_answers_about_is_repeated_with_an_error_and_not_with_gaps() -> None:
    end = {"site": "NYC", "id": "x-2", "known": {"NYC/aa/all": 1}, "unseen": []}
    with node(holding(""), LIMIT_S) as url, pytest.raises(SourceError, match="No events within"):
        table(url, timeout="2", endingOffsets=json.dumps(end))


def test_a_message_of_the_largest_size_is_read_though_its_line_is_six_times_as_long() -> None:
    large = "\0" * (8 << 20)
    with node(holding(large)) as url:
        [row] = table(url)
        assert row["value"] == large.encode()


def test_a_repeated_batch_has_its_gap_though_no_message_follows_in_it() -> None:
    begin = {"site": "NYC", "id": "x-1", "known": {"NYC/aa/all": 7}, "unseen": []}
    offsets = {"startingOffsets": json.dumps(begin), "endingOffsets": json.dumps({**begin, "id": "x-2"})}
    gap = {"event": "gap", "gap": {"after": "x-1", "before": "x-3"}, "reason": "no_longer_held"}
    with node(holding("", **gap)) as url:
        assert texts(table(url, timeout="3", **offsets)) == ["no_longer_held"]


def test_a_first_batch_is_repeated_though_the_latest_message_is_another_one_then() -> None:
    held = ["1"]

    def answer(handler: QuietHandler, ends: Event) -> None:
        asked = handler.headers.get("Last-Event-ID", "x-0" if "oldest" in handler.path else f"x-{len(held)}")
        at = int(asked.removeprefix("x-"))
        handler.wfile.write(f"id: x-{at}\n\n".encode())
        while not ends.wait(0.02):
            while at < len(held):
                at += 1
                handler.wfile.write(said(at, held[at - 1]))

    with node(answer) as url, stream([url], startingOffsets="latest") as again:
        with stream([url], startingOffsets="latest") as killed:
            begin = killed.initialOffset()
            held.append("2")
            first, rows = follow(killed, begin, 1)
        held.append("3")
        assert texts(between(again, again.initialOffset(), first)) == rows == ["2"]
        assert follow(again, first, 1)[1] == ["3"]


def test_a_table_ends_though_its_two_requests_reach_two_nodes_behind_one_name() -> None:
    runs = iter("xyyy")

    def answer(handler: QuietHandler, _: Event) -> None:
        run = next(runs)
        is_newest = "oldest" not in handler.path
        handler.wfile.write(f"id: {run}-1\n\n".encode() if is_newest else f"id: {run}-0\n\n".encode() + said(1, run, run))

    with node(answer) as url:
        assert texts(table(url)) == ["y"]


def test_a_table_of_a_node_that_gets_messages_all_the_time_ends() -> None:
    def answer(handler: QuietHandler, ends: Event) -> None:
        is_newest = "oldest" not in handler.path
        handler.wfile.write(f"id: x-{2 if is_newest else 0}\n\n".encode())
        for n in range(1, 1 if is_newest else 40):
            handler.wfile.write(said(n, str(n)))
            ends.wait(0.0 if n < 2 else 0.2)

    with node(answer) as url:
        rows = texts(table(url))
    assert rows[:2] == ["1", "2"]
    assert len(rows) < 30
