"""``memoranda doctor``, ``reindex`` and ``bench``."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memoranda.plugins import default_registry
from memoranda_cli.plot import svg_plot

Command = Callable[..., Any]


@pytest.fixture
def url(command: Command, tmp_path: Path) -> str:
    made = f"shelf:///{tmp_path / 'memories'}"
    for number in range(8):
        command("add", f"turn {number}", "--user", "ada", "--session", "s", "--store", made)
    return made


@pytest.mark.usefixtures("plugins_found_anew")
def test_a_healthy_store_is_said_to_be_well(command: Command, url: str) -> None:
    default_registry.cache_clear()  # The commands that filled the store found all plugins, and these have layers.
    result = command("doctor", "--json", "--store", url, env={"MEMORANDA_PLUGINS": "shelf"})

    findings = {finding["name"]: finding for finding in json.loads(result.stdout)["findings"]}
    assert findings["opening"]["ok"]
    assert findings["layers"]["detail"] == "observers, lifetimes, branches, and the engine"
    assert findings["dust"]["ok"]
    assert findings["items"]["detail"] == "8 items read, 8 counted"
    assert findings["archive"]["ok"]


def test_what_is_not_well_comes_with_its_remedy_and_exit_code_1(command: Command, url: str, tmp_path: Path) -> None:
    (tmp_path / "dusty").touch()
    command("add", "orphan", "--field", "archived_by=gone", "--store", url)

    result = command("doctor", "--store", url)

    assert result.exit_code == 1
    assert "memoranda doctor --repair" in result.stdout
    assert "memoranda undo gone" in result.stdout


def test_a_repair_is_asked_for(command: Command, url: str, tmp_path: Path) -> None:
    (tmp_path / "dusty").touch()

    assert command("doctor", "--repair", "--store", url).exit_code == 8
    repaired = json.loads(command("doctor", "--repair", "--yes", "--json", "--store", url).stdout)
    assert {"name": "dust", "ok": True, "detail": "clean", "remedy": ""} in repaired["findings"]


def test_a_store_that_cannot_be_reached_is_a_finding_for_the_doctor(command: Command, tmp_path: Path) -> None:
    url = f"shelf:///{tmp_path / 'unreachable'}"

    assert command("doctor", "--store", url).exit_code == 1
    assert command("search", "--store", url).exit_code == 5


def test_reindex_says_how_many(command: Command, url: str, tmp_path: Path) -> None:
    assert "8 items are indexed" in command("reindex", "--store", url).stderr
    command("add", "one", "--store", f"plain:///{tmp_path / 'plain'}")
    assert command("reindex", "--store", f"plain:///{tmp_path / 'plain'}").exit_code == 6


def test_bench_measures_plots_and_leaves_nothing(command: Command, url: str, tmp_path: Path) -> None:
    line = ("bench", url, "--sizes", "20,40", "--calls", "3")

    result = command(*line, "--plot", "growth.svg", "--json")

    (costs,) = json.loads(result.stdout).values()
    reads = {"get", "last 20 of a session", "newest 10 with a rare text", "best 10 of a user for a question"}
    assert {cost["what"] for cost in costs} == {"add", "add_many, each", *reads}
    assert all(set(cost["microseconds"]) == {"20", "40"} for cost in costs)
    assert ElementTree.parse(tmp_path / "growth.svg").getroot().tag.endswith("svg")
    assert json.loads(command("stats", "--json", "--store", url).stdout)["items"] == 8
    assert "growth" in command(*line, "--processor").stdout


def test_bench_compares_with_plain_python(command: Command) -> None:
    costs = json.loads(command("bench", "memory://", "--sizes", "20", "--calls", "3", "--json").stdout)["memory://"]

    assert all(cost["ratio"] > 0 for cost in costs if cost["what"] in ("add", "get", "last 20 of a session"))


@pytest.mark.parametrize("sizes", ["many", "0,10", ""])
def test_bench_refuses_sizes_that_are_none(command: Command, sizes: str) -> None:
    assert command("bench", "memory://", "--sizes", sizes).exit_code == 2


def test_a_plot_holds_every_line_and_escapes_names() -> None:
    panels = {"get & put": {"a<b": [(1.0, 5.0), (100.0, 7.0)], "a<b*": [(1.0, 2.0)]}, "scan": {"c": [(10.0, 1.0)]}}

    plot = ElementTree.fromstring(svg_plot("Growth", "items", "time", panels))

    elements = [(element.tag.rpartition("}")[2], element) for element in plot.iter()]
    texts = {element.text for tag, element in elements if tag == "text"}
    assert {"Growth", "get & put", "scan", "a<b", "a<b by hand", "c", "1", "10", "100"} <= texts
    assert len([tag for tag, _ in elements if tag == "circle"]) == 4


@pytest.mark.parametrize("panels", [{}, {"none": {}}, {"zero": {"line": [(0.0, 1.0)]}}])
def test_a_plot_of_nothing_is_refused(panels: dict[str, dict[str, list[tuple[float, float]]]]) -> None:
    with pytest.raises(ValueError):
        svg_plot("Growth", "items", "time", panels)


def test_a_plot_that_is_no_svg_is_refused_before_anything_is_measured(command: Command, tmp_path: Path) -> None:
    result = command("bench", "memory://", "--sizes", "10", "--calls", "1", "--plot", "cost.png")

    assert result.exit_code == 2
    assert "cost.svg" in result.stderr
    assert list(tmp_path.iterdir()) == []
