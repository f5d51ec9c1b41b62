"""``memoranda summarize``, ``compact``, ``expand`` and ``undo``."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]

PYTHON = shlex.quote(sys.executable)
MODEL = f"{PYTHON} -c \"import sys; print('- They met,', len(sys.stdin.read()) > 0)\""


@pytest.fixture
def url(command: Command, tmp_path: Path) -> str:
    made = f"shelf:///{tmp_path / 'memories'}"
    for number in range(8):
        command("add", f"turn {number}", "--user", "ada", "--session", "s", "--store", made)
    return made


@pytest.fixture
def template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a summary template, as a distribution of its own."""
    folder = tmp_path / "template"
    (folder / "brief-1.0.dist-info").mkdir(parents=True)
    (folder / "brief-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: brief\nVersion: 1.0\n")
    (folder / "brief-1.0.dist-info" / "entry_points.txt").write_text("[memoranda]\nbrief = memoranda_brief\n")
    (folder / "memoranda_brief.py").write_text(
        "from memoranda.plugins.hookspecs import TemplateSpec, hookimpl\n"
        "from memoranda_summary.templates import PlainTemplate\n"
        "brief = PlainTemplate('brief')\n"
        "@hookimpl\n"
        "def memoranda_templates():\n"
        "    return [TemplateSpec('brief', target='memoranda_brief:brief')]\n"
    )
    monkeypatch.syspath_prepend(str(folder))


@pytest.mark.usefixtures("template")
def test_summarize_stores_nothing(command: Command, url: str) -> None:
    line = ("summarize", "--session", "s", "--template", "brief", "--command", MODEL, "--store", url)

    result = json.loads(command(*line, "--json").stdout)

    assert result["summaries"] == {"brief": "- They met, True\n"}
    assert (result["original_count"], len(result["kept"])) == (8, 4)
    assert "They met" in command(*line).stdout
    assert json.loads(command("stats", "--json", "--store", url).stdout)["items"] == 8


@pytest.mark.usefixtures("template")
def test_a_limit_of_the_prompt_that_leaves_no_room_is_refused(command: Command, url: str) -> None:
    line = ("summarize", "--session", "s", "--template", "brief", "--command", MODEL, "--store", url)

    refused = command(*line, "--max-prompt-tokens", "10")

    assert refused.exit_code != 0
    assert "give it at least" in " ".join(refused.stderr.split())
    assert command(*line, "--max-prompt-tokens", "4000").exit_code == 0


@pytest.mark.usefixtures("template")
def test_compact_archives_and_undo_brings_back(command: Command, url: str) -> None:
    line = ("compact", "--user", "ada", "--session", "s", "--template", "brief", "--command", MODEL, "--store", url)

    assert "Nothing is due" in command(*line).stderr
    assert "4 items would be summarized" in command(*line, "--messages", "5", "--dry-run").stderr
    done = json.loads(command(*line, "--messages", "5", "--json").stdout)
    assert done["compacted"]
    assert len(done["archived"]) == 4
    assert json.loads(command("stats", "--json", "--store", url).stdout)["archived"] == 4
    left_out = json.loads(command("context", "--session", "s", "--json", "--store", url).stdout)["left_out"]
    assert all("stands for it" in entry["reason"] for entry in left_out)

    back = json.loads(command("undo", done["summary_id"], "--json", "--store", url).stdout)

    assert sorted(back["restored"]) == sorted(done["archived"])
    assert json.loads(command("stats", "--json", "--store", url).stdout)["archived"] == 0
    assert command("undo", done["summary_id"], "--store", url).exit_code == 3


@pytest.mark.usefixtures("template")
@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ((), 2, "--model"),
        (("--model", "m", "--base-url", "ftp://host"), 2, "https://"),
        (("--command", "no-such-program-anywhere"), 1, "cannot be started"),
        (("--command", f"{PYTHON} -c 'raise SystemExit(3)'"), 1, "exit code 3"),
        (("--command", f"{PYTHON} -c pass"), 1, "empty answer"),
    ],
)
def test_a_model_that_is_missing_or_fails_changes_nothing(
    command: Command, url: str, options: tuple[str, ...], code: int, said: str
) -> None:
    result = command("compact", "--force", "--session", "s", "--template", "brief", *options, "--store", url)

    assert result.exit_code == code
    assert said in result.stderr
    assert json.loads(command("stats", "--json", "--store", url).stdout)["archived"] == 0


def test_a_template_that_is_not_installed_is_exit_code_3(command: Command, url: str) -> None:
    result = command("summarize", "--template", "haiku", "--command", MODEL, "--store", url)

    assert result.exit_code == 3
    assert "No summary template is called 'haiku'" in result.stderr


@pytest.fixture
def summary_id(command: Command, url: str) -> str:
    """Return the id of a summary that stands for the first four turns."""
    line = ("compact", "--force", "--user", "ada", "--session", "s", "--template", "brief", "--command", MODEL)
    result = command(*line, "--json", "--store", url)
    assert result.exit_code == 0, result.output
    made: str = json.loads(result.stdout)["summary_id"]
    return made


@pytest.mark.usefixtures("template")
def test_expand_shows_what_a_summary_stands_for_and_changes_nothing(
    command: Command, url: str, summary_id: str
) -> None:
    shown = command("expand", summary_id, "--store", url)
    document = json.loads(command("expand", summary_id, "--json", "--store", url).stdout)

    assert shown.exit_code == 0
    assert [f"turn {number}" in shown.stdout for number in range(8)] == [True] * 4 + [False] * 4
    assert [item["content"] for item in document["items"]] == [f"turn {number}" for number in range(4)]
    assert {item["archived_by"] for item in document["items"]} == {summary_id}
    assert json.loads(command("stats", "--json", "--store", url).stdout)["archived"] == 4


@pytest.mark.usefixtures("template")
def test_expand_finds_a_summary_only_among_its_owners_memories(command: Command, url: str, summary_id: str) -> None:
    refused = command("expand", summary_id, "--user", "bob", "--store", url)

    assert refused.exit_code == 3
    assert "turn" not in refused.output
    assert command("expand", summary_id, "--user", "ada", "--store", url).exit_code == 0


@pytest.mark.parametrize("which", ["nowhere", "a turn"])
def test_expand_of_what_is_no_summary_is_exit_code_3(command: Command, url: str, which: str) -> None:
    item_id = "nowhere"
    if which == "a turn":
        item_id = json.loads(command("search", "turn", "--limit", "1", "--json", "--store", url).stdout)[0]["id"]

    result = command("expand", item_id, "--store", url)

    assert result.exit_code == 3
    assert item_id in result.stderr
