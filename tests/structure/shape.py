"""Structure rules for all product files together: each takes path -> text and returns complaints as sentences."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from graphlib import CycleError, TopologicalSorter

from tests.structure import policy
from tests.structure.rules import imported_names, method_names


def check_circles(sources: Mapping[str, str]) -> list[str]:
    """Refuse files that import each other, in type checking too, unless the group is listed."""
    graph = _import_graph(sources)
    listed = set(policy.IMPORT_CIRCLES)
    complaints = []
    while circle := _find_circle(graph):
        group = tuple(sorted(set(circle)))
        if group not in listed:
            complaints.append(f"these files import each other: {' -> '.join(circle)}")
        listed.discard(group)
        graph[circle[1]].discard(circle[0])  # the sorter names an importer after its imports
    return [*complaints, *(f"{group}: no circle any more, remove it from IMPORT_CIRCLES" for group in sorted(listed))]


def check_small_files(sources: Mapping[str, str]) -> list[str]:
    """Refuse a small file that one other file imports, unless it is listed. Faces and `__main__.py` are exempt."""
    importers = Counter(imported for imports in _import_graph(sources).values() for imported in imports)
    small = {
        path
        for path, text in sources.items()
        if importers[path] == 1 and len(text.splitlines()) < policy.SMALL_FILE_LINES and not path.endswith("__.py")
    }
    unlisted = [
        f"{path}: below {policy.SMALL_FILE_LINES} lines with one importer; merge it into that" for path in sorted(small)
    ]
    return [each for each in unlisted if each.split(":")[0] not in policy.SMALL_FILES] + _needless(policy.SMALL_FILES, small)


def check_method_names(sources: Mapping[str, str]) -> list[str]:
    """Refuse a method name that too many classes define, unless it is a listed contract. Dunder methods are exempt."""
    classes: dict[str, list[str]] = defaultdict(list)
    for path, text in sources.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                for name in method_names(node):
                    classes[name].append(f"{path}:{node.name}")
    frequent = {name for name, owners in classes.items() if len(owners) > policy.CLASSES_OF_A_METHOD_MAX}
    frequent = {name for name in frequent if not name.startswith("__")}
    complaints = [f"{name}: a method of {len(classes[name])} classes; name it by what it does" for name in sorted(frequent)]
    return [each for each in complaints if each.split(":")[0] not in policy.SHARED_METHODS] + _needless(
        policy.SHARED_METHODS, frequent
    )


def _needless(listed: Mapping[str, str], needed: Collection[str]) -> list[str]:
    return [f"{name}: needs no exception any more, remove its entry" for name in sorted(listed) if name not in needed]


def _import_graph(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """The files of ours that each file imports."""
    files = {_module(path): path for path in sources}
    graph: dict[str, set[str]] = {path: set() for path in sources}
    for path, text in sources.items():
        for _, name in imported_names(path, text):
            while name and name not in files:
                name = name.rpartition(".")[0]
            if name and files[name] != path:
                graph[path].add(files[name])
    return graph


def _module(path: str) -> str:
    name = path.removeprefix("lab/").removeprefix("spark/").removesuffix(".py").replace("/", ".")
    return name.removesuffix(".__init__")


def _find_circle(graph: Mapping[str, Collection[str]]) -> list[str]:
    """Return one circle, its first file again at its end; empty without a circle."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []
