"""What ``memoranda.open(url, revisions=True)`` and ``revisions+sqlite://…`` call."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from memoranda.errors import InputError
from memoranda.store import Store
from memoranda.store.layers import add_layer
from memoranda_receipts.revisions.layer import RevisionsLayer
from memoranda_receipts.revisions.records import Revisions

StoreT = TypeVar("StoreT", bound=Store)


def with_revisions(store: StoreT, *, value: object = True, **options: Any) -> StoreT:
    """Let a store keep earlier versions of items, and return it.

    ``value`` is True, or a :class:`Revisions` that says how many; the URL's options ``revisions_days`` and
    ``revisions_number`` say it, too. Raises InputError for anything else.
    """
    if value is not True and value != "true" and not isinstance(value, Revisions):
        raise InputError("revisions is True, or memoranda_receipts.Revisions(days=…, number=…).", field="revisions")
    given = value if isinstance(value, Revisions) else Revisions()
    kept = Revisions(options.get("revisions_days", given.days), options.get("revisions_number", given.number))
    itself = weakref.proxy(store)
    add_layer(
        store,
        RevisionsLayer,
        kept,
        now=lambda: itself.present,
        expires=store.lifetimes.note,
        item_types=lambda: itself.item_types,
    )
    return store


OPTIONS: Mapping[str, Callable[[str], Any]] = {"revisions_days": float, "revisions_number": int}
with_revisions.options = OPTIONS  # type: ignore[attr-defined]  # memoranda.open looks there for the URL's options.
