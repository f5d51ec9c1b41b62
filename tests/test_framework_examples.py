"""Every example runs from an empty folder, with no key and no network, and prints what it says it prints."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

EXAMPLES = sorted(
    path
    for path in (Path(__file__).parent.parent / "examples").rglob("*.py")
    if "It prints:" in path.read_text(encoding="utf-8")
)
NEEDED = {
    "adk_services": "google.adk",
    "langchain_history": "langchain_core",
    "llama_index_chat_store": "llama_index",
    "strands_repository": "strands",
}
"""The frameworks that are in no environment but that of the session `recipes`."""


def is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # Not even what it lies in is there.
        return False


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_it_says(example: Path, tmp_path: Path) -> None:
    package = NEEDED.get(example.stem)
    if package is not None and not is_installed(package):
        pytest.skip(f"{package} is not installed; nox -s recipes runs it")
    told = ast.get_docstring(ast.parse(example.read_text(encoding="utf-8"))) or ""
    promised = textwrap.dedent(told.partition("It prints:\n\n")[2])

    result = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", str(example)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert result.returncode == 0, result.stderr
    assert promised
    assert result.stdout.strip() == promised.strip()
    assert list(tmp_path.iterdir()) == []
