"""Change one thing at a time in a module: every mutant of its functions, with a stable name."""

from __future__ import annotations

import ast
import copy
import difflib
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

Change = Callable[[], ast.AST | list[ast.stmt] | None]
"""Returns what takes the place of a node: another one, several statements, or nothing."""

_Path = tuple[tuple[str, int | None], ...]
"""The way from a module to a node: names of fields, and positions in lists."""

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_SUMS: dict[type[ast.operator], type[ast.operator]] = {ast.Add: ast.Sub, ast.Sub: ast.Add}
_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any", "reversed": "list", "sorted": "list"}
_SKIPPED = {
    *("__repr__", "__str__", "from_url", "doctor", "reindex", "fill_indexes", "erase", "unerased", "add_vectors"),
    *("gauges", "steps"),  # What telemetry reads.
}
"""Functions that are no part of the contract of stores: the kit does not call them."""


class Module:
    """A module that is mutated: its tree, and its text as the tree gives it."""

    def __init__(self, name: str, source: str) -> None:
        self.name = name
        self.tree = ast.parse(source)
        self._texts = [ast.unparse(statement) for statement in self.tree.body]

    def text(self, statement: int = 0, changed: str = "") -> str:
        """Return the module as text, with one of its statements changed."""
        texts = list(self._texts)
        if changed:
            texts[statement] = changed
        return "\n\n".join(texts) + "\n"


@dataclass(frozen=True)
class Mutant:
    """A module with one thing changed."""

    module: Module
    function: str
    line: int
    kind: str
    path: _Path
    number: int
    """The number of the change among those of its node."""
    change: Change

    @cached_property
    def key(self) -> str:
        """What tells it from other mutants, if both may be the same change."""
        return f"{self.module.name}{self.path}{self.kind}{self.number}"

    @cached_property
    def source(self) -> str:
        """The changed module; empty if the change is none, or leaves no valid module."""
        undo, statement = _replace(self.module.tree, self.path, self.change()), self.path[0][1] or 0
        try:
            changed = ast.unparse(ast.fix_missing_locations(self.module.tree.body[statement]))
        finally:
            undo()
        try:
            compile(changed, self.module.name, "exec")
        except SyntaxError:
            return ""
        text = self.module.text(statement, changed)
        return "" if text == self.module.text() else text

    @cached_property
    def name(self) -> str:
        """The same for the same change, whatever else changes in the repository."""
        return hashlib.sha256(f"{self.module.name}\n{self.function}\n{self.diff}".encode()).hexdigest()[:12]

    @cached_property
    def diff(self) -> str:
        """The lines that differ, with one line around them."""
        before, after = self.module.text().splitlines(), self.source.splitlines()
        while before[:3] == after[:3] and len(before) > 9 and len(after) > 9:
            del before[0], after[0]
        while before[-3:] == after[-3:] and len(before) > 9 and len(after) > 9:
            del before[-1], after[-1]
        lines = difflib.unified_diff(before, after, lineterm="", n=1)
        return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


def mutants(name: str, source: str) -> Iterator[Mutant]:
    """Yield every mutant of a module's functions; some have no source, since nothing can be changed there."""
    module = Module(name, source)
    for function, node, path in _nodes(module.tree):
        for number, (kind, change) in enumerate(_changes(node)):
            yield Mutant(module, function, getattr(node, "lineno", 0), kind, path, number, change)


def _nodes(tree: ast.Module) -> Iterator[tuple[str, ast.AST, _Path]]:
    """Yield each node inside a function, with the function's name and the way from the module to the node."""

    def below(node: ast.AST, path: _Path, function: str) -> Iterator[tuple[str, ast.AST, _Path]]:
        if isinstance(node, ast.Raise):  # A message is not looked at.
            return
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "type_params", "decorator_list", "args") and not isinstance(
                node, ast.Call
            ):
                continue
            for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if not isinstance(child, ast.AST) or _is_docstring(node, child) or _is_strict(child):
                    continue
                name = function
                if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    if child.name in _SKIPPED:
                        continue
                    name = f"{function}.{child.name}".lstrip(".")
                there: _Path = (*path, (field, index))
                if function and not isinstance(child, ast.ClassDef):
                    yield function, child, there
                yield from below(child, there, name)

    yield from below(tree, (), "")


def _is_strict(child: ast.AST) -> bool:
    """Return True for the argument ``strict`` of zip(), without which lists of one length are the same."""
    return isinstance(child, ast.keyword) and child.arg == "strict"


def _is_docstring(parent: ast.AST, child: ast.AST) -> bool:
    body = getattr(parent, "body", None)
    return (
        isinstance(child, ast.Expr)
        and isinstance(child.value, ast.Constant)
        and isinstance(body, list)
        and child in body
    )


def _replace(tree: ast.AST, path: _Path, new: ast.AST | list[ast.stmt] | None) -> Callable[[], None]:
    """Put something else where the path leads, and return what undoes it."""
    parent = tree
    for field, index in path[:-1]:
        value = getattr(parent, field)
        parent = value if index is None else value[index]
    field, index = path[-1]
    before = getattr(parent, field)
    if index is None:
        setattr(parent, field, new)
    else:
        put = new if isinstance(new, list) else [] if new is None else [new]
        setattr(parent, field, [*before[:index], *put, *before[index + 1 :]])
    return lambda: setattr(parent, field, before)


def _changes(node: ast.AST) -> Iterator[tuple[str, Change]]:
    """Yield the kind of each change to a node, and a function that makes it."""
    if isinstance(node, ast.expr):
        yield from _expression_changes(node)
    elif isinstance(node, ast.stmt):
        yield from _statement_changes(node)
    elif isinstance(node, ast.comprehension):
        for position in range(len(node.ifs)):
            fewer = [test for place, test in enumerate(node.ifs) if place != position]
            yield "condition", lambda fewer=fewer: _with(node, ifs=fewer)


def _with(node: ast.AST, **fields: object) -> ast.AST:
    """Return a copy of a node with other fields."""
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _expression_changes(node: ast.expr) -> Iterator[tuple[str, Change]]:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARISONS:
        ops = [_COMPARISONS[type(node.ops[0])](), *node.ops[1:]]
        yield "comparison", lambda: _with(node, ops=ops)
    elif isinstance(node, ast.BoolOp):
        for position in range(len(node.values)):
            left = [value for place, value in enumerate(node.values) if place != position]
            yield "condition", lambda left=left: left[0] if len(left) == 1 else _with(node, values=left)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "condition", lambda: node.operand
    elif isinstance(node, ast.IfExp):
        yield "condition", lambda: node.body
        yield "condition", lambda: node.orelse
    elif isinstance(node, ast.BinOp) and type(node.op) in _SUMS:
        yield "arithmetic", lambda: _with(node, op=_SUMS[type(node.op)]())
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield "constant", lambda: ast.Constant(not node.value)
        elif isinstance(node.value, int):
            yield "constant", lambda: ast.Constant(node.value + 1)
    elif isinstance(node, ast.Slice):
        if node.lower is not None:
            yield "slice", lambda: _with(node, lower=None)
        if node.upper is not None:
            yield "slice", lambda: _with(node, upper=None)
    elif isinstance(node, ast.Call):
        yield from _call_changes(node)


def _call_changes(node: ast.Call) -> Iterator[tuple[str, Change]]:
    if isinstance(node.func, ast.Name) and node.func.id in _CALLS:
        keywords = [] if _CALLS[node.func.id] == "list" else node.keywords
        name = ast.Name(_CALLS[node.func.id], ast.Load())
        yield "order", lambda: _with(node, func=name, keywords=keywords)
    if len(node.args) == 2 and not any(isinstance(argument, ast.Starred) for argument in node.args):
        yield "order", lambda: _with(node, args=node.args[::-1])
    for position in range(len(node.keywords)):
        if _is_strict(node.keywords[position]):
            continue
        fewer = [keyword for place, keyword in enumerate(node.keywords) if place != position]
        yield "argument", lambda fewer=fewer: _with(node, keywords=fewer)


def _is_effect(node: ast.stmt) -> bool:
    """Return True for a statement that changes something which outlives the function."""
    if isinstance(node, ast.Assign):
        return not isinstance(node.targets[0], ast.Name)
    return isinstance(node, (ast.AugAssign, ast.Delete, ast.Expr))


def _can_meet(first: ast.stmt, second: ast.stmt) -> bool:
    """Return True if the order of two statements may matter: one of them calls something, or uses what both name."""
    if any(isinstance(node, (ast.Call, ast.Await)) for statement in (first, second) for node in ast.walk(statement)):
        return True
    set_there = [{ast.unparse(node) for node in _stored(each)} for each in (first, second)]
    named = [{ast.unparse(node) for node in ast.walk(each) if isinstance(node, ast.expr)} for each in (first, second)]
    return bool(set_there[0] & named[1] or set_there[1] & named[0])


def _stored(statement: ast.stmt) -> Iterator[ast.expr]:
    for node in ast.walk(statement):
        if isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)) and isinstance(node, ast.expr):
            yield node


def _statement_changes(node: ast.stmt) -> Iterator[tuple[str, Change]]:
    body = getattr(node, "body", [])
    for place in range(1, len(body)):
        first, second = body[place - 1 : place + 1]
        if _is_effect(first) and _is_effect(second) and not _is_docstring(node, first) and _can_meet(first, second):
            swapped = [*body[: place - 1], second, first, *body[place + 1 :]]
            yield "order", lambda swapped=swapped: _with(node, body=swapped)
    if isinstance(node, ast.If):
        yield "condition", lambda: _with(node, test=ast.Constant(True))
        yield "condition", lambda: _with(node, test=ast.Constant(False))
    elif isinstance(node, (ast.With, ast.AsyncWith)):
        if all(item.optional_vars is None for item in node.items):
            yield "lock", lambda: node.body
    elif isinstance(node, ast.Expr):
        yield "statement", lambda: ast.Pass()
        if isinstance(node.value, ast.Await):
            yield "await", lambda: _with(node, value=node.value.value)
    elif _is_effect(node):
        yield "statement", lambda: ast.Pass()
    elif isinstance(node, (ast.For, ast.AsyncFor)):
        yield "early", lambda: _with(node, body=[*node.body, ast.Break()])
        yield "early", lambda: ast.Pass()
    elif isinstance(node, ast.Continue):
        yield "early", lambda: ast.Break()
    elif isinstance(node, ast.Return) and isinstance(node.value, (ast.ListComp, ast.List)):
        yield "early", lambda: _with(node, value=ast.List([], ast.Load()))
