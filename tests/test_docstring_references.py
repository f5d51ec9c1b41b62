"""What a docstring or a comment refers to by name exists."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path
from pkgutil import resolve_name

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
ROLE = re.compile(r":(?:class|func|meth|attr|mod|data|exc|obj):`~?([\w.]+)`")
SOURCES = {
    tomllib.loads(settings.read_text(encoding="utf-8"))["project"]["name"]: settings.parent / "src"
    for settings in (ROOT / "core" / "pyproject.toml", *sorted(ROOT.glob("plugins/*/*/pyproject.toml")))
}
"""The sources of each distribution."""


@cache
def names_in(source: Path) -> frozenset[str]:
    """Return every name that the modules below a folder define, import or set."""
    found: set[str] = set()
    for path in source.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(node.name)
            elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.id if isinstance(node, ast.Name) else node.attr)
            elif isinstance(node, ast.alias):
                found.add((node.asname or node.name).rpartition(".")[2])
    return frozenset(found)


@cache
def needed(source: Path) -> frozenset[Path]:
    """Return the sources of the distributions that one needs, and of those that they need, itself included."""
    project = tomllib.loads((source.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ours = [SOURCES[name] for line in project["dependencies"] if (name := Requirement(line).name) in SOURCES]
    return frozenset({source}).union(*map(needed, ours))


def exists(reference: str, source: Path) -> bool:
    """Whether a whole path can be imported; a shorter name is one of its distribution, or of those that it needs."""
    if reference.startswith("memoranda"):
        try:
            resolve_name(reference)
        except (ImportError, AttributeError):
            return False
        return True
    return any(reference.rpartition(".")[2] in names_in(each) for each in needed(source))


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_references_in_the_sources_lead_somewhere(source: Path) -> None:
    dangling = [
        f"{path.relative_to(ROOT)}: {reference}"
        for path in source.rglob("*.py")
        for reference in ROLE.findall(path.read_text(encoding="utf-8"))
        if not exists(reference, source)
    ]

    assert dangling == []
