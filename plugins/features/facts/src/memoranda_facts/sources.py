"""What supports a change: which items, since when, and how far they are trusted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from memoranda.errors import InputError
from memoranda.items import MemoryItem
from memoranda.store import Store
from memoranda.trust import Trust, check_trust, trust_of
from memoranda_facts.records import MANUAL, Source

Sources = str | MemoryItem | Source | Iterable[MemoryItem | Source | str]
"""What supports a change: items, ids of items, :class:`Source` with spans, or the word "manual"."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """The sources of a change, when their latest item was created, and how far they are trusted together."""

    sources: tuple[Source, ...]
    said: str | None
    trust: Trust

    @property
    def item_ids(self) -> list[str]:
        """The ids of the items among them."""
        return sorted({source.item_id for source in self.sources if not source.is_manual})


def handle_trust(store: Store) -> Trust | None:
    """Return how far what a handle writes is trusted at most; None if it does not say."""
    trusts = []
    bound: object = store
    while bound is not None:
        if (trust := getattr(bound, "trust", None)) is not None:
            trusts.append(Trust(trust))
        bound = getattr(bound, "_store", None)
    return min(trusts, default=None)


def named_sources(given: Sources) -> list[MemoryItem | Source]:
    """Return sources as a list. Raises InputError if there are none."""
    several = [given] if isinstance(given, (str, MemoryItem, Source)) else list(given)
    if not several:
        raise InputError("A fact needs sources: items, their ids, or 'manual'.", field="sources")
    found: list[MemoryItem | Source] = []
    for each in several:
        if isinstance(each, str):
            found.append(MANUAL if each == "manual" else Source(each))
        elif isinstance(each, (MemoryItem, Source)):
            found.append(each)
        else:
            raise InputError(f"A source is an item, an id or a Source, not {type(each).__name__}.", field="sources")
    return found


def missing_items(named: Iterable[MemoryItem | Source]) -> list[str]:
    """Return the ids of the items that have to be read."""
    return [each.item_id for each in named if isinstance(each, Source) and not each.is_manual]


def supported(
    named: Iterable[MemoryItem | Source], held: Mapping[str, MemoryItem], most: Trust | None, trust: str | None
) -> Provenance:
    """Return what sources come to. ``held`` are the items that were read, ``most`` the trust of the handle.

    What was entered by hand is trusted as far as ``trust`` says, by default as the handle or else as a user. Everything
    else is trusted at most as far as its least trusted item. Raises InputError for an item that is not there.
    """
    asked = None if trust is None else check_trust(trust, "trust")
    levels = [level for level in (asked, most) if level is not None]
    sources, times = [], []
    for each in named:
        if isinstance(each, Source) and each.is_manual:
            sources.append(each)
            levels.append(asked or most or Trust.USER)
            continue
        item = each if isinstance(each, MemoryItem) else held.get(each.item_id)
        if item is None:
            raise InputError("A source of this fact is not among the memories of its user.", field="sources")
        sources.append(Source(each.id) if isinstance(each, MemoryItem) else each)
        levels.append(trust_of(item))
        times.append(item.created_at)
    return Provenance(tuple(dict.fromkeys(sources)), max(times, default=None), min(levels))
