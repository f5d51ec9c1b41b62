"""What ``memoranda new-plugin`` says of testing; that the plugins pass their tests is seen in fresh environments."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from packaging.requirements import Requirement

from memoranda.plugins import HOOKS
from memoranda_cli.authors import Kind

Command = Callable[..., Any]
CLONE = Path(__file__).parents[4]

from_an_index = SimpleNamespace(read_text=lambda name: None)
"""A distribution that does not know a folder or an address that it came from."""


def test_every_hook_has_a_kind(command: Command, tmp_path: Path) -> None:
    offered = set()
    for kind in Kind:
        command("new-plugin", f"a-{kind}", "--kind", kind)
        (source,) = (tmp_path / f"memoranda-a-{kind}").glob("src/*/plugin.py")
        offered |= {hook for hook in HOOKS if f"def {hook}()" in source.read_text()}

    # A framework has an interface of its own, and a wrapper forwards what its store can do: no scaffold knows either.
    assert offered == set(HOOKS) - {"memoranda_integrations", "memoranda_wrappers"}


@pytest.mark.parametrize("kind", list(Kind))
def test_the_tests_name_what_they_need(command: Command, tmp_path: Path, kind: Kind) -> None:
    command("new-plugin", "paper", "--kind", kind)
    folder = tmp_path / "memoranda-paper"
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    tests = "".join(path.read_text() for path in folder.glob("tests/*.py"))
    imported = {name.replace("_", "-") for name in re.findall(r"^(?:from|import) (memoranda_\w+)", tests, re.MULTILINE)}

    has, needed = (
        {Requirement(line).name for line in lines}
        for lines in (project["dependencies"], project["optional-dependencies"]["test"])
    )

    assert needed == {"memoranda-testing"} | (imported - has - {"memoranda-paper"})


def test_what_is_missing_is_installed_from_the_clone_by_the_next_line(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "constraints.txt" not in command("new-plugin", "paper").output

    monkeypatch.setattr("memoranda_cli.authors.find_spec", lambda name: None)
    told = command("new-plugin", "pen").stderr

    (line,) = told.splitlines()
    installing = f"(cd {CLONE} && pip install -c constraints.txt './core[testing]')"
    assert line.startswith(f"Next: {installing} && cd memoranda-pen && pip install -e '.[test]' && pytest tests")


def test_without_the_clone_what_is_missing_is_named_before_the_next_line(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memoranda_cli.authors.find_spec", lambda name: None)
    monkeypatch.setattr("memoranda_cli.authors.distribution", lambda name: from_an_index)

    told = command("new-plugin", "pen", "--kind", "fact-extractor").stderr.splitlines()

    assert [line.partition(":")[0] for line in told] == [
        "It needs memoranda-facts",
        "It needs memoranda-testing",
        "Next",
    ]
    assert "&& pip install -e '.[test]' &&" in told[-1]


def test_the_next_steps_can_be_pasted_whatever_the_folder(command: Command) -> None:
    assert "cd 'my plugins' &&" in command("new-plugin", "paper", "--folder", "my plugins").output
