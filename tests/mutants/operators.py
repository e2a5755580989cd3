"""Classic ways to break one line of a program: each is a small change of its syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from typing import NamedTuple

_COMPARISONS: dict[type[ast.cmpop], ast.cmpop] = {
    ast.Lt: ast.LtE(),
    ast.LtE: ast.Lt(),
    ast.Gt: ast.GtE(),
    ast.GtE: ast.Gt(),
    ast.Eq: ast.NotEq(),
    ast.NotEq: ast.Eq(),
    ast.Is: ast.IsNot(),
    ast.IsNot: ast.Is(),
    ast.In: ast.NotIn(),
    ast.NotIn: ast.In(),
}
_SUMS: dict[type[ast.operator], ast.operator] = {ast.Add: ast.Sub(), ast.Sub: ast.Add()}
_JUNCTIONS: dict[type[ast.boolop], ast.boolop] = {ast.And: ast.Or(), ast.Or: ast.And()}
#: Output for operators without a promise: not broken.
SHOWN_ONLY = frozenset({"__repr__", "__str__", "levels", "statistics"})


class Break(NamedTuple):
    """One line, and its replacement; `above`: the line above it, which tells equal lines apart."""

    line: int
    above: str
    before: str
    after: str
    operator: str


def breaks(source: str, lines: Collection[int]) -> list[Break]:
    """All ways to break these lines of a file. Only functions are broken: the rest of a file runs when it is imported."""
    text = source.splitlines()
    found: dict[tuple[int, str], Break] = {}
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and function.name not in SHOWN_ONLY:
            for statement in function.body:
                for node, replacement, operator in _walk(statement, function):
                    if node.lineno in lines and node.lineno == node.end_lineno:
                        before = text[node.lineno - 1]
                        after = _splice(before, node, replacement)
                        if after != before:
                            above = text[node.lineno - 2]
                            found.setdefault((node.lineno, after), Break(node.lineno, above, before, after, operator))
    return sorted(found.values())


def _splice(line: str, node: ast.expr | ast.stmt, replacement: str) -> str:
    raw = line.encode()  # the tree counts bytes
    return (raw[: node.col_offset] + replacement.encode() + raw[node.end_col_offset :]).decode()


_Found = Iterator[tuple[ast.expr | ast.stmt, str, str]]


def _walk(node: ast.AST, function: ast.FunctionDef | ast.AsyncFunctionDef) -> _Found:
    """The nodes to replace, with their replacements. Assertions, errors' texts, inner functions and types are left alone."""
    if isinstance(node, ast.Assert | ast.Raise | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.JoinedStr):
        return
    if isinstance(node, ast.stmt):
        yield from _of_statement(node, function)
    elif isinstance(node, ast.expr):
        yield from _of_expression(node)
    for child in ast.iter_child_nodes(node):
        if not (isinstance(node, ast.AnnAssign) and child is node.annotation):
            yield from _walk(child, function)


def _of_statement(node: ast.stmt, function: ast.FunctionDef | ast.AsyncFunctionDef) -> _Found:
    if isinstance(node, ast.If | ast.While):
        yield from _of_condition(node.test)
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    sets_own = isinstance(node, ast.Assign) and not isinstance(node.targets[0], ast.Name | ast.Tuple)
    if isinstance(node, ast.AugAssign) or sets_own or (isinstance(node, ast.Expr) and not is_text):
        yield node, "pass", "drop a statement"
        if isinstance(function.returns, ast.Constant) and function.returns.value is None:
            yield node, "return", "return early"
    if isinstance(node, ast.AugAssign) and type(node.op) in _SUMS:
        swapped = ast.AugAssign(node.target, _SUMS[type(node.op)], node.value)
        yield node, ast.unparse(swapped), "swap + and -"
    if isinstance(node, ast.Return) and isinstance(node.value, ast.List | ast.Call) and _returns_list(function):
        yield node, "return []", "return nothing"


def _returns_list(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return function.returns is not None and ast.unparse(function.returns).startswith("list[")


def _of_condition(test: ast.expr) -> _Found:
    yield test, f"not ({ast.unparse(test)})", "negate a condition"
    yield test, "False", "never"
    yield test, "True", "always"


def _of_expression(node: ast.expr) -> _Found:
    match node:
        case ast.IfExp(test=test):
            yield from _of_condition(test)
        case ast.Compare(left=left, ops=[op], comparators=others):
            yield node, ast.unparse(ast.Compare(left, [_COMPARISONS[type(op)]], others)), "swap a comparison"
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
            yield node, ast.unparse(ast.BinOp(left, _SUMS[type(op)], right)), "swap + and -"
        case ast.BoolOp(op=op, values=[_, _] as values):
            yield node, f"({ast.unparse(ast.BoolOp(_JUNCTIONS[type(op)], values))})", "swap and and or"
            for kept in values:
                yield node, f"({ast.unparse(kept)})", "drop one side"
        case ast.Constant(value=bool() as value):
            yield node, str(not value), "swap True and False"
        case ast.Constant(value=int() as value):
            yield node, str(value + 1), "off by one"
        case ast.Call(func=func, args=args, keywords=[*keywords, ast.keyword()]) if keywords or args:
            yield node, ast.unparse(ast.Call(func, args, keywords)), "drop a keyword"
        case ast.Call(func=ast.Name("min" | "max" as name), args=args, keywords=keywords):
            yield node, ast.unparse(ast.Call(ast.Name({"min": "max", "max": "min"}[name]), args, keywords)), "swap min and max"
        case ast.List(elts=[*elements, _]) if elements:
            yield node, ast.unparse(ast.List(elements, ast.Load())), "drop an element"
            yield node, ast.unparse(ast.List([*node.elts[1:]], ast.Load())), "drop an element"
