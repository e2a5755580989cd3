"""A plan as JSON text, and back: a found fault is kept as its plan, whatever seeds draw later.

A field with its default is not written: with a default for a new field of a plan or fault, older plans stay readable.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from typing import Any

from relay.node.config.config_values import KIND, Reader
from relay_lab.simulation.faults import Fault
from relay_lab.simulation.plan import Plan

#: Characters of a plan, and digits of a number in it, at most.
CHARS_MAX, DIGITS_MAX = 4 << 20, 18


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """A plan, and the reason to keep it: the promise that it once broke."""

    why: str
    plan: Plan


def to_text(stored: StoredPlan) -> str:
    """JSON with a field of the plan, or a fault, a line: small, and a difference between two plans can be read."""
    plan = to_json(stored.plan)
    faults = ",\n".join([f"      {json.dumps(fault)}" for fault in plan.pop("faults")])
    lines = [f"    {json.dumps(name)}: {json.dumps(value)}" for name, value in plan.items()]
    lines.append(f'    "faults": [\n{faults}\n    ]' if faults else '    "faults": []')
    body = ",\n".join(lines)
    return f'{{\n  "why": {json.dumps(stored.why)},\n  "plan": {{\n{body}\n  }}\n}}\n'


def from_text(text: str) -> StoredPlan:
    """Return a stored plan. Raises ValueError with a sentence for other text."""
    if len(text) > CHARS_MAX:
        raise ValueError(f"it has more than {CHARS_MAX} characters")
    try:
        value = json.loads(text, parse_int=_parse_int)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    reader = Reader({})
    stored, _ = reader.read(StoredPlan, value)
    if reader.problems:
        raise ValueError(reader.problems[0].removesuffix("."))
    assert isinstance(stored, StoredPlan)
    return stored


def _parse_int(digits: str) -> int:
    if len(digits) > DIGITS_MAX:
        raise ValueError(f"it has a number of more than {DIGITS_MAX} digits")
    return int(digits)


def to_json(value: Any) -> Any:
    """Return plain JSON values of the fields that differ from their defaults."""
    if is_dataclass(value) and not isinstance(value, type):
        named = {KIND: type(value).__name__} if isinstance(value, Fault) else {}
        pairs = [(field, getattr(value, field.name)) for field in fields(value)]
        return named | {field.name: to_json(each) for field, each in pairs if each != default_of(field)}
    return [to_json(each) for each in value] if isinstance(value, tuple) else value


def default_of(field: Field[Any]) -> Any:
    """Return the default of a field; `MISSING` without one."""
    return field.default if field.default_factory is MISSING else field.default_factory()
