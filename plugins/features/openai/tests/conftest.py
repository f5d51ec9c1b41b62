"""What the tests of both uses of the API share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from servers import ModelServer, model_server


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """A server that speaks the API, on a free port of this machine."""
    with model_server() as running:
        yield running
