"""What ``memoranda.open(url, revisions=True)`` and ``revisions+sqlite://…`` call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memoranda.errors import InputError
from memoranda.store import Store
from memoranda_receipts.revisions.records import Revisions
from memoranda_receipts.revisions.store import RevisionsStore

_FURTHER = ("erase", "unerased", "doctor", "reindex", "destroy_keys", "count_unreadable")
"""Methods that some stores have beside the contract."""


def with_revisions(store: Store, *, value: object = True, **options: Any) -> RevisionsStore:
    """Return a store around another that keeps earlier versions of items.

    ``value`` is True, or a :class:`Revisions` that says how many; the URL's options ``revisions_days`` and
    ``revisions_number`` say it, too. Raises InputError for anything else.
    """
    if value is not True and value != "true" and not isinstance(value, Revisions):
        raise InputError("revisions is True, or memoranda_receipts.Revisions(days=…, number=…).", field="revisions")
    given = value if isinstance(value, Revisions) else Revisions()
    kept = Revisions(options.get("revisions_days", given.days), options.get("revisions_number", given.number))
    methods = {name: _forwarded(name) for name in _FURTHER if hasattr(store, name)}
    made: type[RevisionsStore] = type("RevisionsStore", (RevisionsStore,), methods)
    return made(store, kept)


OPTIONS: Mapping[str, Callable[[str], Any]] = {"revisions_days": float, "revisions_number": int}
with_revisions.options = OPTIONS  # type: ignore[attr-defined]  # memoranda.open looks there for the URL's options.


def _forwarded(name: str) -> Callable[..., Any]:
    """Return a method that is the one of the store underneath."""

    def method(self: RevisionsStore, *args: Any, **named: Any) -> Any:
        return getattr(self._inner, name)(*args, **named)

    method.__name__ = name
    return method
