"""How far an import or a copy came when it was broken off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from memoranda.errors import MemoryError
from memoranda_commands.exits import CommandError, code_of
from memoranda_commands.interrupting import Interrupted

if TYPE_CHECKING:
    from memoranda_userdata import TransferCounts


@contextmanager
def broken_off(counts: TransferCounts) -> Iterator[None]:
    """Say how far a transfer came, if Ctrl-C or an error ends the block."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"Interrupted {counts.interruption()}", counts.as_json()) from None
    except MemoryError as error:
        if not counts.total and not counts.under_way:
            raise
        message = f"{error} This was {counts.interruption()}"
        raise CommandError(message, code_of(error), counts.as_json()) from error
