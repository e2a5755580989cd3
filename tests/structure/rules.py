"""The structure rules: each takes the path and text of one source file and returns complaints as sentences.

A path is relative to the project and uses `/`. Nothing here reads the disk, so every rule can be shown a
planted violation.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator

from tests.structure import policy

_UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX)\b")
_BARE_IGNORE = re.compile(r"#\s*type:\s*ignore(?!\[)")
_BARE_NOQA = re.compile(r"#\s*noqa\b(?!:\s*[A-Z]+[0-9])", re.IGNORECASE)


def check_import_direction(path: str, text: str) -> list[str]:
    """A room imports only from floors below its own, and layers never import each other."""
    complaints = []
    floor = _floor(path)
    for line, name in imported_names(path, text):
        imported = name.replace(".", "/")
        if floor is not None and (other := _floor(imported)) is not None and other >= floor and _room(imported) != _room(path):
            complaints.append(f"{path}:{line}: {_room(path)} must not import {_room(imported)}, which is on no floor below it")
        if path.startswith(policy.LAYERS) and imported.startswith(policy.LAYERS) and _layer(imported) != _layer(path):
            complaints.append(f"{path}:{line}: a layer must not import another ({_layer(imported)})")
    return complaints


def _floor(path: str) -> int | None:
    """Return the floor of a file or an import; None for the packages' public modules and foreign ones."""
    return next((floor for floor, rooms in enumerate(policy.FLOORS) if _room(path) in rooms), None)


def _room(path: str) -> str:
    """The folder or the file right below a package; the package itself, where that is one room."""
    path = path.removeprefix("lab/").removeprefix("spark/")
    first, _, rest = path.partition("/")
    if any(first in rooms for rooms in policy.FLOORS):
        return first
    name = f"{first}/{rest.split('/')[0].removesuffix('.py')}"
    return f"{name}.py" if any(f"{name}.py" in rooms for rooms in policy.FLOORS) else name


def _layer(path: str) -> str:
    return path.removeprefix(policy.LAYERS).split("/")[0].removesuffix(".py")


def check_doors(path: str, text: str) -> list[str]:
    """Each third-party library is imported only behind its door, and every library has one; so has every part of an
    extra.
    """
    complaints = []
    for line, name in imported_names(path, text):
        for package, doors in policy.INNER_DOORS.items():
            if _is_within(name, package) and not path.startswith(doors):
                complaints.append(f"{path}:{line}: {package} belongs only in {', '.join(doors)}")
        library = name.split(".")[0]
        if library in sys.stdlib_module_names or library in policy.PACKAGES:
            continue
        door = policy.DOORS.get(library)
        if door is None:
            complaints.append(f"{path}:{line}: {library} has no door in tests/structure/policy.py")
        elif not path.startswith(door):
            complaints.append(f"{path}:{line}: {library} belongs only in {', '.join(door)}")
    return complaints


def check_purity(path: str, text: str) -> list[str]:
    """Outside the shell nothing waits, reads a clock, draws randomness, logs or touches the machine."""
    if path.startswith(policy.SHELL):
        return []
    complaints = []
    for line, name in imported_names(path, text):
        if name.split(".")[0] in policy.IMPURE_MODULES:
            complaints.append(f"{path}:{line}: pure code must not import {name}")
    tree = ast.parse(text)
    origins = _origins(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.AsyncFunctionDef):
            complaints.append(f"{path}:{node.lineno}: pure code must not be async ({node.name})")
        elif isinstance(node, ast.Name | ast.Attribute):
            name = _full_name(node, origins)
            if name in policy.IMPURE_FUNCTIONS or _is_global_randomness(name):
                complaints.append(f"{path}:{node.lineno}: pure code must not use {name}")
        elif isinstance(node, ast.Call) and _builtin_name(node.func) in policy.IMPURE_BUILTINS:
            complaints.append(f"{path}:{node.lineno}: pure code must not call {_builtin_name(node.func)}")
    return complaints


def check_sizes(path: str, text: str) -> list[str]:
    """Refuse a file, function or class over its limit, unless it is listed, and a needless entry of the list."""
    complaints = []
    for name, size, size_max, unit in _sizes(path, text):
        if size > size_max and name not in policy.SIZE_EXCEPTIONS:
            complaints.append(f"{name}: {size} {unit}, at most {size_max}")
        if size <= size_max and name in policy.SIZE_EXCEPTIONS:
            complaints.append(f"{name}: no longer too large, remove it from SIZE_EXCEPTIONS")
    return complaints


def size_names(path: str, text: str) -> list[str]:
    """The names that `SIZE_EXCEPTIONS` can have for this file."""
    return [name for name, *_ in _sizes(path, text)]


def check_name(path: str, _text: str) -> list[str]:
    """Check that a module has a searchable name."""
    if re.search(r"(^|/)_?utils?(\.py|/)", path):
        return [f"{path}: no utils module; name it after what it does"]
    return []


def check_contents(path: str, text: str) -> list[str]:
    """Complain about an empty module, a leftover of a move. A package may be empty."""
    body = [] if path.endswith("__init__.py") else ast.parse(text).body
    told = (ast.Import, ast.ImportFrom)
    holds = any(not isinstance(node, told) and not _is_text(node) for node in body)
    return [f"{path}: holds nothing"] if body and not holds else []


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def check_comments(path: str, text: str) -> list[str]:
    """Check that comments leave no unfinished business, and that every ignore names its rule."""
    complaints = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        place = f"{path}:{token.start[0]}"
        if _UNFINISHED.search(token.string):
            complaints.append(f"{place}: finish it, or describe the limit: {token.string}")
        if _BARE_IGNORE.search(token.string):
            complaints.append(f"{place}: name the error code: type: ignore[code]")
        if _BARE_NOQA.search(token.string):
            complaints.append(f"{place}: name the rule: noqa: RULE")
    return complaints


def imported_names(path: str, text: str) -> Iterator[tuple[int, str]]:
    """The line and full dotted name of everything imported, in functions too; relative imports resolved."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = _import_base(path, node)
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"


def _import_base(path: str, node: ast.ImportFrom) -> str:
    if node.level == 0:
        return node.module or ""
    package = path.split("/")[: -node.level]
    return ".".join([*package, node.module] if node.module else package)


def _is_within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def _origins(tree: ast.AST) -> dict[str, str]:
    """Local name -> full dotted name, for everything imported absolutely."""
    origins = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.split(".")[0]
                origins[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            for alias in node.names:
                origins[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return origins


def _full_name(node: ast.expr, origins: dict[str, str]) -> str:
    """The full dotted name of an expression such as `datetime.now`; "" when it starts at no import."""
    if isinstance(node, ast.Name):
        return origins.get(node.id, "")
    if isinstance(node, ast.Attribute):
        owner = _full_name(node.value, origins)
        return f"{owner}.{node.attr}" if owner else ""
    return ""


def _builtin_name(called: ast.expr) -> str:
    return called.id if isinstance(called, ast.Name) else ""


def _is_global_randomness(name: str) -> bool:
    allowed = any(_is_within(name, allowed) for allowed in policy.RANDOM_ALLOWED)
    return name.startswith("random.") and not allowed


def _sizes(path: str, text: str) -> Iterator[tuple[str, int, int, str]]:
    """Name, size, limit and unit of the file and of each function and class in it."""
    yield path, len(text.splitlines()), policy.FILE_LINES_MAX, "lines"
    for name, node in _definitions(ast.parse(text), ""):
        if isinstance(node, ast.ClassDef):
            yield f"{path}:{name}", len(method_names(node)), policy.METHODS_MAX, "methods"
        else:
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            yield f"{path}:{name}", lines, policy.FUNCTION_LINES_MAX, "lines"


def method_names(node: ast.ClassDef) -> set[str]:
    """The methods and properties that a class defines. A property and its setter are one."""
    return {each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}


def _definitions(tree: ast.AST, prefix: str) -> Iterator[tuple[str, ast.stmt]]:
    """Every function and class with its qualified name, `Class.method` or `outer.inner`."""
    for node in ast.iter_child_nodes(tree):
        inside = prefix
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inside = f"{prefix}{node.name}."
            yield f"{prefix}{node.name}", node
        yield from _definitions(node, inside)
