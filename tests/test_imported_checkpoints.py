"""A file that somebody prepared can be imported, and reading the checkpoints in it runs nothing of theirs."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
from langgraph.checkpoint.base import empty_checkpoint

import memoranda.sync
from memoranda_langgraph import MemorandaSaver, RefusedTypeError

THREAD: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


def run(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "memoranda", *arguments], check=True, capture_output=True, timeout=240)


@pytest.mark.parametrize(
    "part", ["checkpoint", *(pytest.param(part, marks=pytest.mark.slow) for part in ("metadata", "value"))]
)
def test_an_imported_checkpoint_runs_nothing(tmp_path: Path, part: str) -> None:
    source, target = f"sqlite:///{tmp_path / 'source.db'}", f"sqlite:///{tmp_path / 'target.db'}"
    exported, mark = tmp_path / "exported.jsonl", tmp_path / "mark"
    with memoranda.sync.open(source) as store:
        saver = MemorandaSaver(store)
        saver.put_writes(saver.put(THREAD, empty_checkpoint(), {"step": 1}, {}), [("a", 1)], "task")
    run("export", str(exported), "--store", source)
    call = ormsgpack.packb(ormsgpack.Ext(1, ormsgpack.packb(["builtins", "open", [str(mark), "w"]])))
    lines = [line for line in map(json.loads, exported.read_text().splitlines()) if "payload" in line]
    for line in lines:
        payload = json.loads(line["payload"])
        if part in payload:
            payload[part] = ["msgpack", "_" + base64.urlsafe_b64encode(call).decode()]
            line["payload"] = json.dumps(payload)
    exported.write_text("".join(json.dumps(line) + "\n" for line in lines))

    run("import", str(exported), "--store", target)

    with memoranda.sync.open(target) as store:
        saver = MemorandaSaver(store)
        with pytest.raises(RefusedTypeError, match=r"builtins\.open"):
            saver.get_tuple(THREAD)
        with pytest.raises(RefusedTypeError):
            list(saver.list(None))
    assert not mark.exists()
