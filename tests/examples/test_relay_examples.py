"""The examples across sites, run as they are: processes, UDP multicast and a TCP bridge on the loopback interface."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples.programs import Program, programs, two_sites
from tests.harness.node_sites import until

pytestmark = pytest.mark.slow


@pytest.mark.long
def test_every_request_is_answered_though_a_relay_and_a_server_are_killed(tmp_path: Path) -> None:
    sites = two_sites(tmp_path)
    nyc, sfo = sites["NYC"], sites["SFO"]
    with programs() as start:
        a = start("request_reply", nyc, "A")
        a.say(f"{sites['NYC name']} me")
        a.expect("me -> ME by A")
        b, d = start("request_reply", nyc, "B"), start("request_reply", sfo, "D")
        b.say(f"{sites['SFO name']} first")
        b.expect("first -> FIRST by D")
        e = start("request_reply", sfo, "E")
        questions = [f"question {n}" for n in range(30)]
        b.say(*[f"{sites['SFO name']} {question}" for question in questions[:15]])
        a.kill()  # the relay of those who ask
        b.say(*[f"{sites['SFO name']} {question}" for question in questions[15:]])
        b.expect(lambda line: "-> QUESTION" in line)
        d.kill()  # the relay of those who answer, with requests that it has and has not answered
        b.say(f"{sites['SFO name']} last")
        b.expect("last -> LAST by E")
        assert b.end() == 0  # when all are answered
        answers = [line.partition(" by ")[0] for line in b.printed]
        expected = [f"{question} -> {question.upper()}" for question in questions]
        assert sorted(answers) == sorted(["first -> FIRST", *expected, "last -> LAST"])
        assert e.end() == 0


def test_a_consumer_has_every_message_once_and_in_order_though_the_relay_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELAY_RUN_DIRECTORY", str(tmp_path / "run"))
    sites = two_sites(tmp_path)
    file, lines = tmp_path / "lines.txt", [f"line {n}" for n in range(20_000)]
    nyc = ("-m", "relay", "node", sites["NYC"], "--insecure", "--name")
    with programs() as start:
        d = start("batch_consumer", sites["SFO"], "D", str(file))
        a = start(*nyc, "A")
        d.expect(lambda line: "A@" in line)
        b = start(*nyc, "B", "--publish", "-")
        d.expect(lambda line: "B@" in line)
        b.say(*lines[:10_000])
        until(lambda: file.stat().st_size > 0)
        a.kill()
        b.say(*lines[10_000:])
        text = "".join([f"{line}\n" for line in lines])
        until(lambda: file.stat().st_size >= len(text))
        assert file.read_text() == text
        assert not any(line.startswith("missing") for line in d.printed)


def test_carts_are_equal_in_both_sites_though_a_relay_is_killed(tmp_path: Path) -> None:
    sites = two_sites(tmp_path)
    with programs() as start:
        a, d = start("cart", sites["NYC"], "A"), start("cart", sites["SFO"], "D")
        a.expect(lambda line: "D" in line)
        b = start("cart", sites["NYC"], "B")
        d.expect(lambda line: "B" in line)
        a.say("ann tea 1")
        a.expect("ann: tea = 1")
        a.kill()
        b.say("ann jam 2")
        b.expect("ann: jam = 2")
        d.say("bob tea 3")
        d.expect("bob: tea = 3")
        wait_for_line(d, "ann", "ann has jam = 2, tea = 1")
        wait_for_line(b, "bob", "bob has tea = 3")
        wait_for_line(b, "?", "equal")


def wait_for_line(program: Program, question: str, wanted: str) -> None:
    """Ask until the answer is that line."""

    def is_answer() -> bool:
        program.say(question)
        return program.expect(lambda line: " has " in line or line == "equal" or line.startswith("different")) == wanted

    until(is_answer)
