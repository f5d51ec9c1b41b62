"""The dashboard and the example say what telemetry really has."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from memoranda_otel import conventions

ROOT = Path(__file__).parents[4]


def exported() -> set[str]:
    """Return the names of our metrics, as Prometheus has them."""
    pairs = [value for value in vars(conventions).values() if isinstance(value, tuple) and len(value) == 2]
    metrics = {name: unit for name, unit in pairs if isinstance(unit, str) and (unit == "s" or unit.startswith("{"))}
    found = set()
    for name, unit in metrics.items():
        plain = name.replace(".", "_")
        if unit == "s":
            found |= {f"{plain}_seconds_{part}" for part in ("bucket", "count", "sum")}
        else:
            found.add(f"{plain}_total" if ".items." in name else plain)
    return found


def test_the_dashboard_asks_for_metrics_that_are_exported() -> None:
    dashboard: Any = json.loads((ROOT / "docs/pages/assets/grafana-dashboard.json").read_text(encoding="utf-8"))
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked = {
        name for each in expressions for name in re.findall(r"\b(?:gen_ai|memoranda|db)_[a-z_]+(?=[{)\[]|$)", each)
    }
    labels = {"memoranda_operation", "db_client_connection_state"}
    assert asked - labels == exported() - {"gen_ai_client_operation_duration_seconds_sum"}
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]]
    assert len(set(places)) == len(places) == len({panel["id"] for panel in dashboard["panels"]})


def test_the_service_of_the_example_puts_memory_calls_below_its_requests(tmp_path: Path) -> None:
    ours = {key: value for key, value in os.environ.items() if not key.startswith(("MEMORANDA_", "OTEL_"))}
    program = [sys.executable, str(ROOT / "examples/telemetry_service.py")]
    done = subprocess.run(program, cwd=tmp_path, env=ours, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert sum(line.strip() == "upsert_memory scope=user count=1 outcome=ok" for line in lines) == 2
    context = next(number for number, line in enumerate(lines) if line.strip().startswith("assemble_context"))
    assert lines[context + 1].strip() == "search_memory scope=user mode=text count=2 outcome=ok"
    assert lines[context + 1].startswith("  ")
    assert "memoranda.items.written" in lines[-1]
    assert re.search(r"INFO trace=[0-9a-f]{32} a context of \d+ tokens", done.stderr)
    assert "tea" not in done.stdout + done.stderr
