"""A field of an item stands in one place: the model. Added there, it survives everything else as it is."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from servers import postgres_server, redis_server

SCRIPT = Path(__file__).with_name("added_field.py")


@pytest.fixture(scope="module")
def servers() -> Iterator[list[str]]:
    with ExitStack() as stack:
        postgres = stack.enter_context(postgres_server())
        redis = stack.enter_context(redis_server())
        yield [stack.enter_context(postgres.database()), redis.url]


@pytest.mark.parametrize("fields", ["plain", "with-a-time"])
def test_a_field_that_is_added_to_the_model_alone_is_kept_by_every_store(
    fields: str, servers: list[str], tmp_path: Path
) -> None:
    urls = ["memory://", f"sqlite:///{tmp_path / 'agent.db'}", *servers]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), fields, *urls], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
