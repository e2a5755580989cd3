"""A plan as JSON text, and back: what is found is kept as the plan that shows it, whatever seeds come to stand for later.

The dataclasses themselves say what a plan can hold. A field that has its default is not written, and one that is not there gets
it: whoever adds a field to a plan or to a fault gives it a default, and older plans stay readable. All other fields have to be
there, no unknown one may be, and the first mistake is told in one sentence with its path.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from math import isfinite
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from relay.instruments.simulation.faults import Fault
from relay.instruments.simulation.plan import Plan
from sitestack.model.errors import ConfigurationError

T = TypeVar("T")

_ATOMS: dict[Any, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
#: The key of a fault that names its class.
_KIND = "kind"


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """A plan, and why it is kept: what it once broke."""

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
    """Raises ValueError with a sentence for what is no plan."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    return from_json(StoredPlan, value)


def to_json(value: Any) -> Any:
    """What JSON holds, such that `from_json` gives the same value; only what differs from the defaults."""
    if is_dataclass(value) and not isinstance(value, type):
        named = {_KIND: type(value).__name__} if isinstance(value, Fault) else {}
        pairs = [(field, getattr(value, field.name)) for field in fields(value)]
        return named | {field.name: to_json(each) for field, each in pairs if not _is_default(field, each)}
    return [to_json(each) for each in value] if isinstance(value, tuple) else value


def from_json(kind: type[T], value: Any) -> T:
    """The value of this dataclass. Raises ValueError with a sentence for whatever does not fit it."""
    return cast(T, _read(kind, value, ""))


def _read(kind: Any, value: Any, path: str) -> Any:
    if isinstance(kind, type) and is_dataclass(kind):
        return _read_record(kind, _mapping(value, path), path)
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _read_union(args, value, path)
    if origin is tuple:
        return _read_sequence(args, value, path)
    if origin is Literal:
        return value if value in args else _refuse(path, f"must be one of {', '.join(args)}, not {value!r}")
    if kind is float and type(value) is int:
        return float(value)
    good = type(value) is kind and (kind is not float or isfinite(value))
    return value if good else _refuse(path, f"must be {_ATOMS[kind]}, not {value!r}")


def _read_record(kind: type[Any], given: Mapping[str, Any], path: str) -> Any:
    hints, known = get_type_hints(kind), {field.name: field for field in fields(kind)}
    for name in given:
        if name not in known:
            _refuse(path, f"has a field {name!r}, which {kind.__name__} does not know")
    for name, field in known.items():
        if name not in given and _default(field) is None:
            _refuse(path, f"lacks the field {name!r} of {kind.__name__}")
    values = {name: _read(hints[name], each, f"{path}.{name}" if path else name) for name, each in given.items()}
    try:
        return kind(**values)
    except ConfigurationError as error:
        return _refuse(path, f"cannot be: {error}")


def _read_union(kinds: tuple[Any, ...], value: Any, path: str) -> Any:
    """Nothing, or one kind of value; or one of several records, told apart by name."""
    if value is None and types.NoneType in kinds:
        return None
    kinds = tuple([kind for kind in kinds if kind is not types.NoneType])
    if len(kinds) == 1:
        return _read(kinds[0], value, path)
    given = dict(_mapping(value, path))
    name = given.pop(_KIND, None)
    by_name = {kind.__name__: kind for kind in kinds}
    if name not in by_name:
        _refuse(path, f"has {name!r} for its {_KIND!r}, which must be one of {', '.join(sorted(by_name))}")
    return _read_record(by_name[name], given, path)


def _read_sequence(kinds: tuple[Any, ...], value: Any, path: str) -> tuple[Any, ...]:
    if type(value) is not list:
        _refuse(path, f"must be a list, not {value!r}")
    if kinds[-1] is Ellipsis:
        kinds = (kinds[0],) * len(value)
    if len(value) != len(kinds):
        _refuse(path, f"must be a list of {len(kinds)}, not {value!r}")
    return tuple([_read(kind, each, f"{path}[{at}]") for at, (kind, each) in enumerate(zip(kinds, value, strict=True))])


def _mapping(value: Any, path: str) -> dict[str, Any]:
    return value if type(value) is dict else _refuse(path, f"must be an object, not {value!r}")


def _default(field: Field[Any]) -> Callable[[], Any] | None:
    """What makes the default of a field; None when it has none."""
    if field.default is not MISSING:
        return lambda: field.default
    return None if field.default_factory is MISSING else field.default_factory


def _is_default(field: Field[Any], value: Any) -> bool:
    default = _default(field)
    return default is not None and value == default()


def _refuse(path: str, what: str) -> Any:
    raise ValueError(f"{path or 'the plan'} {what}")
