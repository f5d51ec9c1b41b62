"""The stores behind conversations."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from servers.adapter_stores import engines, store, urls_on

__all__ = ["engines", "store"]

lasting_url, url = urls_on("postgres", "redis")

collect_ignore = []
"""Tests of what an installed release does not have: the harness asks for one release of Pydantic AI."""
if find_spec("pydantic_ai_harness") is None:
    collect_ignore.append("test_memory_files.py")
if find_spec("pydantic_ai.conversation_store") is None:
    tests = {path.name for path in Path(__file__).parent.glob("test_*.py")}
    collect_ignore += sorted(tests - {"test_memory_files.py"})
