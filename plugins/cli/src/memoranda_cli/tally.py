"""What became of the items of a transfer, in numbers and in words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from memoranda.errors import MemoryError
from memoranda_cli.exits import CommandError, code_of
from memoranda_cli.interrupting import Interrupted


@dataclass(slots=True)
class Tally:
    """What became of the items."""

    added: int = 0
    unchanged: int = 0
    overwritten: int = 0
    skipped: int = 0
    expired: int = 0
    deleted: int = 0
    under_way: int = 0

    @property
    def total(self) -> int:
        """How many were dealt with."""
        return self.added + self.unchanged + self.overwritten + self.skipped + self.expired

    def as_json(self) -> dict[str, int]:
        """Return the numbers, for programs."""
        counts = asdict(self)
        del counts["under_way"]
        return counts

    def interruption(self) -> str:
        """Return what is known when the transfer is broken off: of what is under way, nobody can tell."""
        if not self.total and not self.under_way:
            return "before anything was stored."
        unsure = f", and up to {self.under_way:,} more may be stored" if self.under_way else ""
        return f"after {self.total:,} items{unsure}; run the same line again to go on: nothing is stored twice."

    def sentence(self) -> str:
        """Return what happened, in words."""
        counts = {**self.as_json(), "of them deleted": self.deleted}
        del counts["deleted"]  # They were written as such, and are among the others.
        return ", ".join(f"{number:,} {name}" for name, number in counts.items() if number or name == "added")


@contextmanager
def broken_off(tally: Tally) -> Iterator[None]:
    """Say how far a transfer came that Ctrl-C or an error ends."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"Interrupted {tally.interruption()}", tally.as_json()) from None
    except MemoryError as error:
        if not tally.total and not tally.under_way:
            raise
        told = f"{error} This was {tally.interruption()}"
        raise CommandError(told, code_of(error), tally.as_json()) from error
