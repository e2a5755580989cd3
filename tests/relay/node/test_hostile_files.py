"""Files for people that are made to take long or to take room: refused with one sentence, and soon."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from relay.node.config.config_file import FILE_BYTES_MAX, PROBLEMS_MAX, load_config
from relay.node.status.status_socket import parse_status
from relay_lab.simulation.plan_json import CHARS_MAX, from_text
from sitestack.model.errors import ConfigurationError

#: Many times the time for a configuration, on a slow machine.
LIMIT_S = 5.0
FILES = {
    "many mistakes": "".join([f"abcdefgh{n}: 1\n" for n in range(15_000)]),
    "nested lists": f"a: {'[' * 200_000}",
    "nested lists that end": f"a: {'[' * 500}{']' * 500}",
    "nested mappings": f"a: {'{a: ' * 50_000}",
    "nested by indentation": "".join([f"{' ' * n}a:\n" for n in range(500)]),
    "a long number": f"a: {'9' * 200_000}",
    "a long number to the base of 60": f"a: 1{':59' * 60_000}",
    "a long text": f"name: {'x' * 200_000}",
    "a set": f"a: !!set {{{','.join([f'k{n}' for n in range(20_000)])}}}",
    "pairs": f"a: !!pairs [{','.join([f'k{n}: 1' for n in range(20_000)])}]",
    "bytes": "name: !!binary eHh4",
    "a date": "name: !!timestamp 2001-01-01",
    "an object": "a: !!python/object/apply:os.system ['x']",
    "too large": "#" * (FILE_BYTES_MAX + 1),
}


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_a_configuration_is_refused_soon_and_shortly(text: str, tmp_path: Path) -> None:
    file = tmp_path / "bomb.yaml"
    file.write_text(text)
    began = time.thread_time()
    with pytest.raises(ConfigurationError) as caught:
        load_config(file, site="NYC")
    assert time.thread_time() - began < LIMIT_S
    assert len(str(caught.value).splitlines()) <= PROBLEMS_MAX + 1
    assert len(str(caught.value)) < 20_000


def test_what_looks_like_a_date_is_a_text(tmp_path: Path) -> None:
    file = tmp_path / "nyc.yaml"
    file.write_text("site: 2001-01-01\n")
    assert load_config(file).site == "2001-01-01"


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "9" * 5_000, '{"why": 1e999}', '{"a": ' + "9" * 400 + "}", " " * (CHARS_MAX + 1)]
)
def test_a_plan_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]{1,300}$"):
        from_text(text)


@pytest.mark.parametrize("answer", [b"[" * 100_000, b"9" * 5_000, b"\xff", b"[]", b""])
def test_a_strange_status_is_none(answer: bytes) -> None:
    with pytest.raises(OSError, match=r"^x: the answer is not the status of a node$"):
        parse_status(answer, "x")
