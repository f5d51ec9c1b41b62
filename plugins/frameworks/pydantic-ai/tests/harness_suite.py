"""The harness's own tests of its memory stores, run on ours: ``python harness_suite.py --suite PATH``.

``PATH`` is a copy of the harness's sources with ``tests/memory/test_stores.py``, which no release of it ships. The
function ``_local_stores`` of that module, from which its contract tests take their stores, returns three of ours: in
memory, in a file, and within a user's scope. What the script prints names the tests that are left out, since they make
a class of the harness themselves.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda.store import InMemoryStore
from memoranda_pydantic_ai.memory_files import MemorandaMemoryStore


def stores(tmp_path: Path) -> list[MemorandaMemoryStore]:
    return [
        MemorandaMemoryStore(InMemoryStore()),
        MemorandaMemoryStore(memoranda.open(f"sqlite:///{tmp_path}/memory.db")),
        MemorandaMemoryStore(InMemoryStore().scoped(user_id="ada")),
    ]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Replace the stores, and leave out the tests that do not take theirs from ``_local_stores``."""
    kept, left_out = [], []
    for item in items:
        function = getattr(item, "function", None)
        module = getattr(item, "module", None)
        if function is not None and "_local_stores" in function.__code__.co_names:
            module._local_stores = stores  # type: ignore[union-attr]  # a test has a module
            kept.append(item)
        else:
            left_out.append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left_out)
    config.stash[_LEFT_OUT] = sorted({item.name.partition("[")[0] for item in left_out})


_LEFT_OUT: pytest.StashKey[list[str]] = pytest.StashKey()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    names = config.stash.get(_LEFT_OUT, [])
    terminalreporter.section(f"{len(names)} tests are about a class of the harness itself and left out")
    terminalreporter.line(", ".join(names))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--suite", type=Path, required=True, help="a copy of the harness's sources")
    given, further = parser.parse_known_args()
    sys.path.insert(0, str(Path(__file__).parent))
    module = given.suite.resolve() / "tests" / "memory" / "test_stores.py"
    return int(
        pytest.main(["-q", "-p", "harness_suite", "-p", "anyio", f"--rootdir={module.parent}", *further, str(module)])
    )


if __name__ == "__main__":
    sys.exit(main())
