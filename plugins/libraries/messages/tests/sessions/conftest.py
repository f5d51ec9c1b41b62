"""Stores behind conversations: in memory, and a file that other processes can open."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import memoranda
from memoranda.store import Store


@pytest.fixture
def lasting_url(tmp_path: Path) -> str:
    """The URL of an empty store that other processes can open, too."""
    return f"sqlite:///{tmp_path}/sessions.db"


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, lasting_url: str) -> AsyncIterator[Store]:
    async with memoranda.open("memory://" if request.param == "memory" else lasting_url) as opened:
        yield opened
