"""The sentence of the contract that a wrong answer breaks, and what usually causes it."""

# ruff: noqa: E501 - a sentence that is quoted stays in one piece

from __future__ import annotations

import inspect
import re

from memoranda.store import Store
from memoranda_testing.model.steps import Call

# By method and kind of difference: whose docstring the sentence is in, and the sentence. Where a kind is not named, it
# is the first sentence of the method's own docstring.
_SENTENCES: dict[str, dict[str, tuple[str, str]]] = {
    "get": {
        "version": ("get", "The item is the caller's own copy and carries the version the store gave it."),
        "lifetime": ("get", "an item that has a ttl lives that long once more."),
    },
    "get_many": {
        "missing": ("get_many", "those that are not there are left out."),
        "lifetime": ("get", "an item that has a ttl lives that long once more."),
    },
    "search": {"lifetime": ("search", "what is returned and has a ttl lives that long once more.")},
    "search_ranked": {
        "missing": ("search_ranked", "items with no relation to the query are left out of a text ranking."),
        "too much": ("search_ranked", "items with no relation to the query are left out of a text ranking."),
        "afresh": ("search_ranked", "What lies outside of the scope changes no score."),
    },
    "scan": {
        "missing": ("scan", "Items that are there for the whole scan are yielded exactly once"),
        "version": ("add", "An id that exists is replaced as a whole and its version goes up by one"),
        "order": ("add", "it keeps its place in the order of adding"),
        "lifetime": ("add", "makes the item vanish by itself"),
    },
    "add": {
        "no error": ("add", "is refused with IdConflictError and stays untouched."),
        "error": ("add", "An id that exists is replaced as a whole and its version goes up by one"),
        "together": ("add", "An id that exists is replaced as a whole and its version goes up by one"),
    },
    "add_many": {
        "no error": ("add", "is refused with IdConflictError and stays untouched."),
        "cancelled": ("add_many", "A store with the capability ``atomic`` writes all or none"),
    },
    "append": {
        "no error": ("append", "TurnConflictError is raised and nothing is stored"),
        "together": ("append", "of several who answer the same message with ``append``, one is heard"),
    },
    "update": {"no error": ("update", "Otherwise raises VersionConflictError and changes nothing;")},
    "pop": {"together": ("pop", "However many call at the same time, each item is returned once.")},
    "window": {"copy": ("fork", "Copies of other stores give the ``record`` as :meth:`scan` yields it")},
    "fork": {"no error": ("fork", "Raises InputError if the session does not show such an item.")},
}

_CAUSES: dict[str, str] = {
    "missing": "a filter that asks for too much, a page that ends one row early, a cap on how much is read or bound at once, "
    "or an index that a write did not reach",
    "too much": "a filter in which a field was forgotten or is compared too loosely (case, type, a joined key, a prefix of text "
    "instead of a namespace's elements), or a removal that did not reach every copy",
    "order": "a sort without the order of adding as its last key, or a replacement that takes a new place",
    "number": "counting or removing with other conditions than searching does, or counting what has expired or is deleted",
    "version": "a version that is taken from the caller's item, or not raised where an item is replaced by this call",
    "field": "a column that is written by one of the writing calls and not by the others, or a value that comes back as another type",
    "lifetime": "seconds taken for milliseconds, an end that is not renewed, or one that a replacement leaves behind",
    "error": "a check that is made against other rows than the ones that are meant, such as expired or deleted ones, or a "
    "driver's exception that is not translated",
    "other error": "checks in another order, or against other rows, than the contract says; or a driver's exception that is not translated",
    "no error": "an owner, a version or a conversation's end that is not checked in the same transaction as the write",
    "score": "a ranking over other rows than the scope's (others' items, old texts), or a vector or word list that was not renewed",
    "together": "reading and writing in two transactions without a lock in between",
    "cancelled": "a batch in several transactions, or one that is not rolled back when its caller gives up",
    "not ended": "a lock, a connection or a slot of a pool that is not given back when a call fails or is cancelled; or a store that is slow, which is no fault: run the kit with a longer timeout",
    "afresh": "a vector, a word list or an entry of an index that was not renewed where an item was replaced, archived or "
    "removed",
    "copy": "the record of a branch that a scan yields, which names other items than the scan does, or a branch that is "
    "made again with another past",
    "outside": "a write that is acknowledged before it is where others read: in a cache or a buffer of this process, or in "
    "a transaction that is not committed",
    "left": "a connection, a thread or a task that close() does not wait for",
    "value": "another item than the one that is asked for",
}

_BY_ARGUMENT: dict[str, str] = {
    "where": "the translation of where: a missing key, a type, or the order of texts",
    "since": "the bound of since, which is included",
    "until": "the bound of until, which is not included",
    "min_trust": "the trust of items that do not say it, which is their type's",
    "offset": "the page: the offset is passed over after filters and order",
    "keep_created": "keep_created, which leaves a replaced item its created_at",
    "deleted": "items that arrive deleted, which no call shows",
    "within": "the bounds of within, which hold for what is replaced and deleted",
}


def sentence(method: str, kind: str) -> str:
    """Return the sentence of the contract that a difference of this kind in this method breaks."""
    place, text = _SENTENCES.get(method, {}).get(kind) or (method, _first_sentence(method))
    return f"{place}: “{text}”"


def _first_sentence(method: str) -> str:
    documented = " ".join((inspect.getdoc(getattr(Store, method)) or "").split())
    return re.split(r"(?<=\.) ", documented)[0]


def quoted() -> list[tuple[str, str]]:
    """Return every method with a sentence of its docstring that is quoted here."""
    return [pair for of in _SENTENCES.values() for pair in of.values()]


def cause(call: Call | None, kind: str) -> str:
    """Return what usually causes a difference of this kind."""
    usual = _CAUSES[kind]
    named = [text for name, text in _BY_ARGUMENT.items() if call is not None and name in call.arguments]
    if call is not None and call.scope is not None and kind in ("missing", "too much", "number", "no error"):
        named.append("the bounds of the handle, which hold for every method")
    return "; or ".join([*named, usual]) if named else usual
