"""``memoranda export``, ``import`` and ``copy``: everything arrives, or the store is as it was."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memoranda import ToolMemory
from memoranda.store import dump_item
from memoranda.sync import open as open_store

Command = Callable[..., Any]


@pytest.fixture
def source(command: Command, made_once: Callable[..., Any], tmp_path: Path) -> str:
    """A store with ties, an archived item, an unknown type, a further field, and a hidden item."""
    url = f"shelf:///{tmp_path / 'source'}"
    tied = ("--at", "2024-01-01", "--store", url)

    def added() -> None:
        for number in range(5):
            command("add", f"tied {number} ✓\n\u2028", "--user", "ada", "--id", f"i{number}", *tied)
        command("add", "archived", "--field", "archived_by=summary", "--user", "ada", *tied)
        command("add", "odd", "--type", "odd", "--field", 'colour={"red": [1, 2.5, null]}', "--user", "bob", *tied)
        command("add", "hidden", "--user", "carol", "--session", "h", *tied)
        command("clear", "--session", "h", "--yes", "--store", url)

    made_once(added)
    return url


def everything(url: str, *, include_deleted: bool = False) -> list[dict[str, Any]]:
    """Return all items of a store in its order, without the versions that it gave them."""
    with open_store(url) as store:
        items = [dump_item(item) for item in store.scan(include_deleted=include_deleted)]
    return [{name: value for name, value in item.items() if name != "version"} for item in items]


def test_what_is_exported_and_imported_is_the_same(command: Command, source: str, tmp_path: Path) -> None:
    target = f"shelf:///{tmp_path / 'target'}"

    assert command("export", "all.jsonl", "--store", source).exit_code == 0
    assert command("import", "all.jsonl", "--store", target).exit_code == 0

    assert everything(target) == everything(source)
    assert len(everything(target)) == 7


def test_payloads_and_groups_are_exported_imported_and_copied_to_the_byte(command: Command, tmp_path: Path) -> None:
    source, target, third = (f"shelf:///{tmp_path / name}" for name in ("source", "target", "third"))
    payloads = ['{ "a" : [NaN, "\\u0000\\ud800"] }', "[" * 5_000 + "]" * 5_000, "é no JSON"]
    with open_store(source) as store:
        store.add_many([ToolMemory(content="", payload=each, group="g", also_answers=["x"]) for each in payloads])

    assert command("export", "all.jsonl", "--store", source).exit_code == 0
    assert command("import", "all.jsonl", "--store", target).exit_code == 0
    assert command("copy", target, third).exit_code == 0

    assert everything(third) == everything(target) == everything(source)
    assert sorted(item["payload"] for item in everything(third)) == sorted(payloads)


def test_an_export_is_versioned_json_lines_for_its_owner_alone(command: Command, source: str, tmp_path: Path) -> None:
    command("export", "ada.jsonl", "--user", "ada", "--store", source)

    header, *items, footer = map(json.loads, (tmp_path / "ada.jsonl").read_text().split("\n")[:-1])
    assert (header["memoranda"], header["format"]) == ("export", 1)
    assert (footer["memoranda"], footer["count"]) == ("end", len(items))
    assert {item["metadata"]["user_id"] for item in items} == {"ada"}
    assert (tmp_path / "ada.jsonl").stat().st_mode & 0o077 == 0


def test_deleted_items_travel_on_request_and_stay_deleted(command: Command, source: str, tmp_path: Path) -> None:
    target = f"shelf:///{tmp_path / 'target'}"
    command("export", "all.jsonl", "--deleted", "--store", source)

    first = command("import", "all.jsonl", "--store", target)
    again = command("import", "all.jsonl", "--store", target)

    assert "8 added, 1 of them deleted" in first.stderr
    assert "0 added, 8 unchanged" in again.stderr
    assert everything(target) == everything(source)
    assert everything(target, include_deleted=True) == everything(source, include_deleted=True)


@pytest.mark.parametrize("way", ["copy", "import"])
def test_what_is_deleted_at_the_destination_is_not_shown_again(
    command: Command, source: str, tmp_path: Path, way: str
) -> None:
    target = f"shelf:///{tmp_path / 'target'}"
    command("export", "all.jsonl", "--store", source)
    line = ("copy", source, target) if way == "copy" else ("import", "all.jsonl", "--store", target)
    command(*line)
    command("clear", "--user", "bob", "--yes", "--store", target)
    shown = everything(target)

    refused = command(*line)
    skipped = command(*line, "--on-conflict", "skip")

    assert refused.exit_code == 4
    assert "is deleted in the store" in refused.stderr
    assert "6 unchanged, 1 skipped" in skipped.stderr
    assert everything(target) == shown
    assert "1 overwritten" in command(*line, "--on-conflict", "overwrite").stderr
    assert everything(target) == everything(source)


@pytest.mark.parametrize("way", ["copy", "import"])
def test_what_was_deleted_at_the_source_since_is_a_conflict_and_then_deleted(
    command: Command, source: str, tmp_path: Path, way: str
) -> None:
    target = f"shelf:///{tmp_path / 'target'}"
    line = ("copy", source, target, "--deleted") if way == "copy" else ("import", "all.jsonl", "--store", target)
    command("copy", source, target, "--deleted")
    command("clear", "--user", "bob", "--yes", "--store", source)
    command("export", "all.jsonl", "--deleted", "--store", source)

    refused = command(*line)
    overwritten = command(*line, "--on-conflict", "overwrite")

    assert refused.exit_code == 4
    assert "deleted where it comes from" in refused.stderr
    assert "1 overwritten, 1 of them deleted" in overwritten.stderr
    assert everything(target) == everything(source)
    assert everything(target, include_deleted=True) == everything(source, include_deleted=True)


@pytest.mark.parametrize("way", ["copy", "import"])
def test_a_store_that_shows_what_should_be_deleted_is_found_out(
    command: Command, source: str, tmp_path: Path, way: str
) -> None:
    target = f"leaky:///{tmp_path / 'target'}"
    command("export", "all.jsonl", "--deleted", "--store", source)

    result = command(
        *(("copy", source, target, "--deleted") if way == "copy" else ("import", "--store", target, "all.jsonl"))
    )

    assert result.exit_code == 1
    assert "1 items are not" in result.stderr


def test_of_an_id_that_a_file_holds_twice_the_last_line_counts(command: Command, tmp_path: Path) -> None:
    target = f"shelf:///{tmp_path / 'target'}"
    item = {"id": "twice", "content": "first", "memory_type": "human"}
    lines = [{"memoranda": "deleted", "item": item}, {**item, "content": "second"}]
    (tmp_path / "twice.jsonl").write_text("\n".join(map(json.dumps, lines)))

    assert command("import", "twice.jsonl", "--store", target).exit_code == 0

    assert [item["content"] for item in everything(target)] == ["second"]


def test_export_writes_to_a_pipe_and_import_reads_one(command: Command, source: str, tmp_path: Path) -> None:
    target = f"shelf:///{tmp_path / 'target'}"

    written = command("export", "--store", source).stdout
    assert command("import", "--store", target, input=written).exit_code == 0

    assert everything(target) == everything(source)


def test_an_export_replaces_a_file_only_on_agreement(command: Command, source: str, tmp_path: Path) -> None:
    (tmp_path / "there.jsonl").write_text("precious")

    assert command("export", "there.jsonl", "--store", source).exit_code == 8
    assert (tmp_path / "there.jsonl").read_text() == "precious"
    assert command("export", "there.jsonl", "--yes", "--store", source).exit_code == 0


def unmarked(line: str) -> str:
    """Return the line of a hidden item as that of a visible one."""
    return json.dumps(json.loads(line)["item"])


@pytest.mark.parametrize(
    ("damage", "code", "said"),
    [
        (lambda lines: [*lines[:3], "{", *lines[3:]], 2, "line 4: this is not JSON"),
        (lambda lines: [*lines[:3], "[1]", *lines[3:]], 2, "line 4: an item is a JSON object"),
        (lambda lines: [*lines[:3], '{"id": "x", "memory_type": "ai"}', *lines[3:]], 2, "line 4: AIMemory.content"),
        (lambda lines: [*lines[:3], '{"content": "no type"}', *lines[3:]], 2, "line 4: a memory needs a memory_type"),
        (
            lambda lines: [*lines[:3], '{"content": "a\\u0000b", "memory_type": "ai"}', *lines[3:]],
            2,
            "line 4: content contains a NUL",
        ),
        (lambda lines: lines[:-1], 2, "cut off"),
        (lambda lines: [lines[0], *lines[2:]], 7, "changed or damaged"),
        (lambda lines: [lines[0], lines[2], lines[1], *lines[3:]], 7, "changed or damaged"),
        (lambda lines: [line.replace("tied 1", "tied I") for line in lines], 7, "changed or damaged"),
        (lambda lines: [*lines[:-2], unmarked(lines[-2]), lines[-1]], 7, "changed or damaged"),
        (lambda lines: [lines[0].replace('"format": 1', '"format": 2'), *lines[1:]], 2, "Upgrade memoranda"),
        (lambda lines: [*lines, '{"content": "more"}'], 2, "more after the end"),
    ],
)
def test_a_damaged_file_is_refused_and_nothing_of_it_is_stored(
    command: Command, source: str, tmp_path: Path, damage: Callable[[list[str]], list[str]], code: int, said: str
) -> None:
    command("export", "all.jsonl", "--deleted", "--store", source)
    lines = (tmp_path / "all.jsonl").read_text().split("\n")[:-1]
    (tmp_path / "all.jsonl").write_text("\n".join(damage(lines)) + "\n")
    target = f"shelf:///{tmp_path / 'target'}"

    result = command("import", "all.jsonl", "--store", target)

    assert result.exit_code == code
    assert said in result.stderr
    assert everything(target) == []


def test_lines_of_items_alone_are_taken(command: Command, tmp_path: Path) -> None:
    target = f"shelf:///{tmp_path / 'target'}"
    lines = [{"content": "one", "memory_type": "item"}, {"content": "two", "memory_type": "human"}]
    (tmp_path / "plain.jsonl").write_text("\n\n".join(map(json.dumps, lines)) + "\n")

    assert command("import", "plain.jsonl", "--store", target).exit_code == 0

    assert [item["content"] for item in everything(target)] == ["one", "two"]


def test_lines_without_ids_and_times_are_stored_once(command: Command, tmp_path: Path) -> None:
    target = f"shelf:///{tmp_path / 'target'}"
    said = [{"content": "same"}, {"content": "same"}, {"id": "mine", "content": "named"}, {"content": "last"}]
    lines = [json.dumps({"memory_type": "human", **each}) for each in said]
    (tmp_path / "interrupted.jsonl").write_text("\n".join(lines[:2]))
    (tmp_path / "whole.jsonl").write_text("\n".join(lines))
    command("import", "interrupted.jsonl", "--store", target)

    resumed = command("import", "whole.jsonl", "--store", target)
    before = everything(target)
    again = command("import", "whole.jsonl", "--store", target)

    assert "2 added, 2 unchanged" in resumed.stderr
    assert "0 added, 4 unchanged" in again.stderr
    assert [item["content"] for item in before] == ["same", "same", "named", "last"]
    assert everything(target) == before


def test_what_was_deleted_since_is_not_imported_again_under_a_new_id(command: Command, tmp_path: Path) -> None:
    target = f"shelf:///{tmp_path / 'target'}"
    (tmp_path / "plain.jsonl").write_text(
        '{"memory_type": "human", "content": "regretted", "metadata": {"user_id": "ada"}}'
    )
    command("import", "plain.jsonl", "--store", target)
    command("clear", "--user", "ada", "--yes", "--store", target)

    again = command("import", "plain.jsonl", "--store", target)

    assert again.exit_code == 4
    assert "deleted in the store" in again.stderr
    assert everything(target) == []


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_in_a_file_importing_it_again_adds_nothing(command: Command, tmp_path: Path, seed: int) -> None:
    chosen = random.Random(seed)
    optional = {"created_at": "2024-01-01", "updated_at": "2024-02-02", "metadata": {"user_id": "ada"}, "name": "Ada"}
    lines = []
    for number in range(chosen.randrange(1, 30)):
        line = {name: value for name, value in optional.items() if chosen.random() < 0.4}
        if chosen.random() < 0.3:
            line["id"] = f"id-{number}"
        said = {"memory_type": "human", "content": chosen.choice("abc")}
        lines.append(json.dumps(line | said) + chosen.choice(["", " ", "\n"]))
    (tmp_path / "file.jsonl").write_text("\n".join(lines))
    target = f"shelf:///{tmp_path / 'target'}"

    command("import", "file.jsonl", "--store", target)
    before = everything(target)
    again = command("import", "file.jsonl", "--store", target)

    assert len(before) == len(lines)
    assert f"0 added, {len(lines)} unchanged" in again.stderr
    assert everything(target) == before


def test_an_error_in_the_middle_says_what_was_stored_before(command: Command, tmp_path: Path) -> None:
    lines = "\n".join(json.dumps({"memory_type": "human", "content": str(number)}) for number in range(1_200))
    (tmp_path / "many.jsonl").write_text(lines)

    result = command("import", "many.jsonl", "--json", "--store", f"filling:///{tmp_path / 'target'}")

    assert result.exit_code == 5
    assert "no room is left" in result.stderr
    assert "after 1,000 items" in result.stderr
    assert json.loads(result.stdout)["added"] == 1_000


def test_conflicts_fail_skip_or_overwrite(command: Command, source: str, tmp_path: Path) -> None:
    target = f"shelf:///{tmp_path / 'target'}"
    command("export", "all.jsonl", "--store", source)
    command("add", "mine", "--id", "i3", "--user", "ada", "--store", target)
    before = everything(target)

    failed = command("import", "all.jsonl", "--store", target)
    assert failed.exit_code == 4
    assert everything(target) == before

    assert "1 skipped" in command("import", "all.jsonl", "--on-conflict", "skip", "--store", target).stderr
    assert "mine" in [item["content"] for item in everything(target)]

    assert "1 overwritten" in command("import", "all.jsonl", "--on-conflict", "overwrite", "--store", target).stderr
    assert sorted(map(str, everything(target))) == sorted(map(str, everything(source)))


def test_an_id_of_somebody_else_is_never_overwritten(command: Command, source: str, tmp_path: Path) -> None:
    target = f"shelf:///{tmp_path / 'target'}"
    command("export", "all.jsonl", "--store", source)
    command("add", "bob's", "--id", "i3", "--user", "bob", "--store", target)

    result = command("import", "all.jsonl", "--on-conflict", "overwrite", "--store", target)

    assert result.exit_code == 4
    assert [item["content"] for item in everything(target)] == ["bob's"]


def test_a_dry_run_checks_and_stores_nothing(command: Command, source: str, tmp_path: Path) -> None:
    target = f"shelf:///{tmp_path / 'target'}"
    command("export", "all.jsonl", "--store", source)

    assert "7" in command("import", "all.jsonl", "--dry-run", "--store", target).stderr
    assert "Would copy" in command("copy", source, target, "--dry-run").stderr
    assert not (tmp_path / "target").exists()


def test_a_dry_run_counts_only_what_is_not_there_yet(command: Command, source: str, tmp_path: Path) -> None:
    target = f"shelf:///{tmp_path / 'target'}"
    command("export", "all.jsonl", "--store", source)
    command("copy", source, target, "--user", "bob")
    before = (tmp_path / "target").read_bytes()

    copied = command("copy", source, target, "--dry-run")
    imported = command("import", "all.jsonl", "--dry-run", "--store", target)

    assert "6 added, 1 unchanged" in copied.stderr
    assert "6 added, 1 unchanged" in imported.stderr
    assert (tmp_path / "target").read_bytes() == before


def test_copy_is_verified_and_can_be_repeated(command: Command, source: str, tmp_path: Path) -> None:
    target = f"shelf:///{tmp_path / 'target'}"

    first = json.loads(command("copy", source, target, "--deleted", "--json").stdout)
    again = json.loads(command("copy", source, target, "--deleted", "--json").stdout)

    assert (first["count"], first["digest"]) == (again["count"], again["digest"])
    assert (first["added"], again["added"], again["unchanged"]) == (8, 0, 8)
    assert (first["count"], first["verified"]) == (8, True)
    assert everything(target, include_deleted=True) == everything(source, include_deleted=True)
    assert everything(target) == everything(source)


def test_a_copy_that_was_interrupted_goes_on(command: Command, source: str, tmp_path: Path) -> None:
    target = f"shelf:///{tmp_path / 'target'}"
    command("copy", source, target, "--user", "bob")

    result = command("copy", source, target)

    assert result.exit_code == 0
    assert "6 added, 1 unchanged" in result.stderr
    assert sorted(map(str, everything(target))) == sorted(map(str, everything(source)))


def test_a_copy_between_kinds_of_stores(command: Command, source: str, tmp_path: Path) -> None:
    target = f"plain:///{tmp_path / 'target'}"

    assert command("copy", source, target).exit_code == 0
    assert command("copy", source, target, "--deleted").exit_code == 6
    assert everything(target) == everything(source)


def test_a_copy_meets_conflicts_as_an_import_does(command: Command, source: str, tmp_path: Path) -> None:
    target = f"shelf:///{tmp_path / 'target'}"
    command("add", "mine", "--id", "i3", "--user", "ada", "--store", target)

    assert command("copy", source, target).exit_code == 4
    assert [item["content"] for item in everything(target)] == ["mine"]
    assert "1 skipped" in command("copy", source, target, "--on-conflict", "skip").stderr
    assert "1 overwritten" in command("copy", source, target, "--on-conflict", "overwrite").stderr


def test_a_store_is_not_copied_into_itself(command: Command, source: str) -> None:
    assert command("copy", source, source).exit_code == 2


def test_files_that_are_not_there_are_sentences(command: Command, source: str) -> None:
    assert command("import", "nowhere.jsonl", "--store", source).exit_code == 3
    assert command("export", "no/such/folder.jsonl", "--store", source).exit_code == 3


def test_a_file_that_is_not_text_is_a_sentence(command: Command, source: str, tmp_path: Path) -> None:
    (tmp_path / "binary.jsonl").write_bytes(b"\xff\xfe\x00")

    result = command("import", "binary.jsonl", "--store", source)

    assert result.exit_code == 2
    assert "not UTF-8" in result.stderr
