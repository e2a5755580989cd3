"""`relay status`: tables for people, JSON for programs, and nothing that a name could do to a terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from relay.cli import status
from relay.cli.status_tables import status_tables
from tests.harness.command_line import Run
from tests.harness.http_server import QuietHandler, answering, serving

STATUS: dict[str, Any] = {
    "site": "NYC",
    "name": "A",
    "state": "member",
    "role": "relay",
    "relays_to": ["SFO"],
    "view": {"id": [3, "aa"], "members": ["A", "B"]},
    "global_view": {"sites": {"NYC": ["A", "B"], "SFO": ["D"]}, "down": ["LON"]},
    "messages": {"sent": 5, "delivered": {"NYC": 5, "SFO": 7}, "gaps": 2},
    "queues": [
        {"queue": "stack.nakack.held", "now": 3, "high": 9, "max": 10, "stands": ""},
        {"queue": "stack.unicast.held", "now": 0, "high": 0, "max": 11, "stands": ""},
        {"queue": "stack.batching.open_bytes", "now": 77, "high": None, "max": None, "stands": ""},
    ],
    "drops": {"late": 4},
    "links": [
        {"site": "SFO", "linked": True, "down": False, "behind_entries": 6, "behind_bytes": 600, "behind_s": 1.23},
        {"site": "LON", "linked": False, "down": True, "behind_entries": 31, "behind_bytes": 3100, "behind_s": 90.0},
    ],
    "problems": ["relay.bridge.bind: cannot listen."],
    "verdict": {"state": "degraded", "reasons": [{"what": "relay.bridge.bind: cannot listen", "alert": "RelayProblems"}]},
}


def printed(*statuses: dict[str, Any], with_queues: bool = False) -> str:
    console = Console(width=200, force_terminal=False)
    with console.capture() as captured:
        for table in status_tables(statuses, with_queues):
            console.print(table)
    return captured.get()


def test_everything_an_operator_asks_for_is_there() -> None:
    text = printed(STATUS, with_queues=True)
    nodes = ("A@NYC", "relay to SFO", "3: A@NYC B@NYC", "A@NYC B@NYC; D@SFO; LON is down", "12")
    for words in (*nodes, "late", "cannot listen", "linked", "31", "1.2 s"):
        assert words in text
    assert "stack.nakack.held" in text
    row = next(line for line in text.splitlines() if "stack.batching.open_bytes" in line)
    assert "77" in row
    assert "None" not in row
    assert "stack.unicast.held" not in text  # never used, so it does not crowd the table
    assert "stack." not in printed(STATUS)


def test_nothing_is_cut_where_there_is_no_terminal(run: Run) -> None:
    many = {**STATUS, "view": {"id": [3, "aa"], "members": [f"a-member-with-a-long-name-{number}" for number in range(30)]}}
    with answering(200, json.dumps(many).encode(), "/status") as url:
        code, out, _ = run("status", "--node", url)
    assert code == 0
    assert "…" not in out
    line = next(line for line in out.splitlines() if "a-member-with-a-long-name-0@NYC" in line)
    assert "a-member-with-a-long-name-29@NYC" in line


def test_a_node_that_still_joins_has_a_row() -> None:
    joining = {"site": "NYC", "name": "A", "state": "joining", "role": "member"}
    assert "joining" in printed({**joining, "verdict": {"state": "down", "reasons": []}})


def test_markup_in_a_name_is_text() -> None:
    assert "[red]A[/red]@NYC" in printed({**STATUS, "name": "[red]A[/red]"})


def test_status_without_a_node_reports_the_run_directory(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAY_RUN_DIRECTORY", str(tmp_path))
    code, out, err = run("status", "--json")
    assert (code, json.loads(out)) == (1, {"nodes": [], "silent": []})
    assert str(tmp_path) in err


@pytest.mark.parametrize("path", ["", "/", "/status"])
def test_a_url_will_do(run: Run, path: str) -> None:
    with answering(200, json.dumps(STATUS).encode(), "/status") as url:
        code, out, _ = run("status", "--node", url + path, "--json")
    assert (code, json.loads(out)) == (0, STATUS)


def test_the_token_that_may_operate_is_sent_and_none_is_printed(run: Run, tmp_path: Path) -> None:
    sent: list[str | None] = []

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            sent.append(self.headers["Authorization"])
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(STATUS).encode())

    shop, prometheus = "a" * 32, "b" * 32
    token = tmp_path / "token"
    token.touch(0o600)
    with serving(Handler) as url:
        token.write_text(f"# of NYC\n{shop} shop publish,read\n{prometheus} prometheus operate\n")
        assert run("status", "--node", url, "--token", token, "--json")[0] == 0
        token.write_text(f"{shop} shop publish,read\n")
        code, out, err = run("status", "--node", url, "--token", token)
    assert sent == [f"Bearer {prometheus}"]
    assert (code, out, err) == (2, "", f"{token}: has no token with the right operate.\n")


def test_an_answer_of_another_version_is_a_sentence(run: Run) -> None:
    with answering(200, b'{"name": "A", "site": "NYC", "queues": [{"queue": "x", "now": 1, "high": 1}]}', "/status") as url:
        code, _, err = run("status", "--node", url)
    assert (code, status._STRANGE in err) == (1, True)
