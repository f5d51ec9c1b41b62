"""A compaction that is killed before any of its writes loses nothing, and the next one completes it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TURNS = [f"turn {number}" for number in range(6)]
COMPACTED = ["rules", "O", "B", "turn 4", "turn 5"]
WRITES_OF_A_SWAP = 2 + 4


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    program = Path(__file__).with_name("killed_compaction.py")
    done = subprocess.run(
        [sys.executable, program, tmp_path_factory.mktemp("killed")], capture_output=True, check=True, timeout=240
    )
    found: dict[str, list[dict[str, Any]]] = json.loads(done.stdout)
    return found


@pytest.mark.rare
def test_every_write_was_killed_once(report: dict[str, list[dict[str, Any]]]) -> None:
    assert len(report["compact"]) == len(report["undo"]) == WRITES_OF_A_SWAP


def test_nothing_is_lost_wherever_a_compaction_is_killed(report: dict[str, list[dict[str, Any]]]) -> None:
    for step in report["compact"]:
        assert step["after"][0] == "rules"
        assert step["after"][-2:] == ["turn 4", "turn 5"]
        assert "B" in step["after"] or [turn for turn in step["after"] if turn in TURNS] == TURNS


def test_the_next_compaction_completes_what_was_killed(report: dict[str, list[dict[str, Any]]]) -> None:
    assert [step["again"] for step in report["compact"]] == [COMPACTED] * WRITES_OF_A_SWAP


def test_the_model_is_not_asked_again_once_its_answer_is_stored(report: dict[str, list[dict[str, Any]]]) -> None:
    assert [step["asked"] for step in report["compact"]] == [2, 2, 0, 0, 0, 0]


def test_nothing_is_lost_wherever_an_undo_is_killed(report: dict[str, list[dict[str, Any]]]) -> None:
    for step in report["undo"]:
        assert "B" in step["after"] or [turn for turn in step["after"] if turn in TURNS] == TURNS


def test_the_next_undo_completes_what_was_killed(report: dict[str, list[dict[str, Any]]]) -> None:
    assert [step["again"] for step in report["undo"]] == [["rules", *TURNS]] * WRITES_OF_A_SWAP
