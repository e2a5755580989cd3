"""Any answer at the socket or the port of a node: `relay status` shows it, or reports that it is no status."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay.cli import status as command
from relay.node.status.status_socket import parse_answer
from tests.harness.command_line import Run
from tests.relay.cli.test_status_command import STATUS

QUICKLY = settings(
    max_examples=80, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "members", "queue", "x"]), inner),
    max_leaves=5,
)


@st.composite
def almost(draw: st.DrawFn) -> dict[str, Any]:
    """A status in which some things are something else, at the top or one level below."""
    status: dict[str, Any] = json.loads(json.dumps(STATUS))
    for _ in range(draw(st.integers(0, 3))):
        key = draw(st.sampled_from(sorted(status)))
        place: Any = status[key]
        if isinstance(place, list) and place and draw(st.booleans()):
            place = place[0]
        if isinstance(place, dict) and place and draw(st.booleans()):
            place[draw(st.sampled_from(sorted(place)))] = draw(values)
        elif draw(st.booleans()):
            status[key] = draw(values)
        elif len(status) > 1:
            del status[key]
    return status


@QUICKLY
@given(
    answer=st.binary(max_size=40) | st.text(max_size=20).map(str.encode) | values.map(lambda each: json.dumps(each).encode())
)
def test_any_bytes_are_a_status_or_an_error_of_the_system(answer: bytes) -> None:
    said = ""
    try:
        assert isinstance(parse_answer(answer, "somewhere"), dict)
    except OSError as error:
        said = str(error)
    assert said in ("", "somewhere: the answer is not the status of a node")


@pytest.mark.parametrize("answer", [b"[" * 100_000, b'{"a":' * 100_000, b'{"a": ' + b"1" * 5_000 + b"}", b"\xff", b'"\\ud800"'])
def test_an_invalid_status_answer_raises_os_error(answer: bytes) -> None:
    with pytest.raises(OSError, match="is not the status of a node"):
        parse_answer(answer, "somewhere")


@QUICKLY
@given(status=almost())
def test_an_almost_valid_status_is_shown_or_refused(run: Run, monkeypatch: pytest.MonkeyPatch, status: dict[str, Any]) -> None:
    monkeypatch.setattr(command, "_ask", lambda target, token: parse_answer(json.dumps(status).encode(), target))
    code, out, err = run("status", "--node", "here")
    assert out.replace("\n", "").isprintable()
    assert (code, bool(out), bool(err)) in ((0, True, False), (1, False, True))
    assert "Traceback" not in err


@pytest.mark.parametrize("name", ["\x1b[2J", "\ud800", "a\nb", "\u202e"])
def test_no_character_of_a_name_steers_the_terminal(run: Run, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(command, "_ask", lambda target, token: {**STATUS, "name": name})
    code, out, _ = run("status", "--node", "here")
    assert code == 0
    assert name not in out


def test_an_invalid_status_of_one_node_does_not_hide_other_nodes(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    async def ask() -> dict[Any, Any]:
        return {tmp_path / "a.sock": STATUS, tmp_path / "b.sock": {"view": 5}}

    monkeypatch.setattr(command, "fetch_here", ask)
    code, out, err = run("status")
    assert code == 0
    assert "A@NYC" in out
    assert "b.sock: not a node of this version" in err
