"""The layer follows RELAY's design document: every named procedure exists where the table names it."""

from __future__ import annotations

import re
from pathlib import Path

import relay.layer

ROOT = Path(relay.layer.__file__).parents[1]
#: A procedure, its file, and its description.
LINE = re.compile(r"^    (\S.*?) {2,}(\w+/\w+\.py) {2,}(.*)$", re.MULTILINE)


def test_each_procedure_is_defined_where_the_table_states() -> None:
    lines = LINE.findall(relay.layer.__doc__ or "")
    assert len(lines) == 12
    for _, file, what in lines:
        kind, name = re.findall(r"(\w+)\.(\w+)", what)[0] if "." in what else (what, "__init__")
        text = (ROOT / file).read_text(encoding="utf-8")
        body = re.search(rf"^class {kind}\b.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
        assert body is not None, (file, kind)
        assert f"    def {name}(" in body.group(), (file, kind, name)
