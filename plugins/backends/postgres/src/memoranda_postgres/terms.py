"""The searchable form of a content, and how the full-text index holds it.

``term_keys`` of an entry holds a number for each distinct term of an item's content and one for its user. In the index
on it, the server intersects the list of a term with that of a user, however many items other users have. The terms
themselves are not stored: a ranking computes those of the few items that it looks at, and caches them. Terms that share
a number are distinguished there, and users by the condition on the scope.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from zlib import crc32

from memoranda.store.backend import Filter, fold
from memoranda_backend.ranking import index_terms
from memoranda_backend.sql import Parameters
from memoranda_backend.sql.candidates import Sought

TERM_KEYS = "term_keys"

FOLDED = 'coalesce(folded, lower(content COLLATE "C"))'
"""The case-folded content. It is stored only where folding changes more than ASCII letters."""

_MOST = 0x7FFFFFFF  # Terms have numbers from 0 up, users negative ones.

ValueT = TypeVar("ValueT")


class TextCache(dict[str, ValueT]):
    """Caches values computed from texts, up to a bound; a lookup is quicker than with ``functools.lru_cache``."""

    most = 1 << 16

    def __init__(self, compute: Callable[[str], ValueT]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, text: str) -> ValueT:
        if len(self) >= self.most:
            self.clear()
        value = self[text] = self._compute(text)
        return value


def _number(text: str) -> int:
    return crc32(text.encode()) & _MOST


term_key = TextCache(_number).__getitem__
"""Returns the number of a term. It is stored, so computing it differently needs a migration."""

_user_number = TextCache(_number).__getitem__


def user_key(user_id: str) -> int:
    """Return the number of a user."""
    return ~_user_number(user_id)


def user_of(scope: Filter) -> str | None:
    """Return the only user whose items a filter can match, or None where it does not name one."""
    return None if scope.metadata is None else scope.metadata.user_id


def has_term(parameters: Parameters, term: Sought, scope: Filter) -> str:
    """Return the condition that finds the items of a scope that have a term."""
    user = user_of(scope)
    owner = [] if user is None else [user_key(user)]
    having = [f"{TERM_KEYS} @> {parameters.add([term_key(form), *owner])}::integer[]" for form in term.forms]
    return f"({' OR '.join(having)})"


def keys_text(content: str, user_id: str | None) -> str:
    """Return the keys of an item as the text of an array, sorted.

    An array of arrays of different lengths cannot be bound, and the driver would inspect every number twice.
    """
    keys = set(map(term_key, index_terms(content)))
    if user_id is not None:
        keys.add(user_key(user_id))
    return f"{{{','.join(map(str, sorted(keys)))}}}"


def stored_folding(content: str) -> str | None:
    """Return the case-folded content, or None where only ASCII letters change."""
    if content.isascii():
        return None
    folded = fold(content)
    return None if folded.encode() == content.encode().lower() else folded
