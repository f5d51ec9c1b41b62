"""What is made of a content for searching, and how the full-text index holds it.

``term_keys`` holds a number for each different term of the content, and one more that stands for the user: of an index
on them the server reads what the lists of a term and of a user have in common, however many items others have. The
terms themselves are not kept by the server: a ranking makes those of the few items that it looks at, and remembers them
for the next one. Two terms that share a number are told apart there, and two users by the condition on the scope.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar
from zlib import crc32

from memoranda.store import Filter, fold
from memoranda_ranking import index_terms
from memoranda_sql import Parameters

TERM_KEYS = "term_keys"

TEXT_COLUMNS = ("folded", TERM_KEYS)
"""What is made of the content for searching."""

FOLDED = 'coalesce(folded, lower(content COLLATE "C"))'
"""The case-folded content. It is kept only where folding does more than PostgreSQL does to ASCII."""

TERMS_VECTOR = TERM_KEYS
"""The expression of the full-text index."""

_MOST = 0x7FFFFFFF  # Terms have the numbers from nought on, users those below it.


MadeT = TypeVar("MadeT")


class Kept(dict[str, MadeT]):
    """What is made of texts, as far as memory is spent on it; quicker to ask than any cache function."""

    most = 1 << 16

    def __init__(self, make: Callable[[str], MadeT]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, text: str) -> MadeT:
        if len(self) >= self.most:
            self.clear()
        made = self[text] = self._make(text)
        return made


def _number(text: str) -> int:
    return crc32(text.encode()) & _MOST


term_key = Kept(_number).__getitem__
"""Returns the number of a term. It is stored: another way to make it is another schema."""

_key_text = Kept(lambda term: str(_number(term))).__getitem__
_user_number = Kept(_number).__getitem__


def user_key(user_id: str) -> int:
    """Return the number of a user."""
    return ~_user_number(user_id)


def user_of(scope: Filter) -> str | None:
    """Return the only user whose items a filter can match, or None where it does not name one."""
    return None if scope.metadata is None else scope.metadata.user_id


def has_term(parameters: Parameters, term: str, scope: Filter) -> str:
    """Return the condition on the items of a scope which a term finds."""
    user = user_of(scope)
    keys = [term_key(term)] if user is None else [term_key(term), user_key(user)]
    return f"{TERMS_VECTOR} @> {parameters.add(keys)}::integer[]"


def term_keys(terms: Iterable[str], user_id: str | None) -> list[int]:
    """Return the numbers of an item's terms and of its user, in order and each once."""
    keys = set(map(term_key, terms))
    if user_id is not None:
        keys.add(user_key(user_id))
    return sorted(keys)


def keys_text(content: str, user_id: str | None) -> str:
    """Return the keys of an item as the text of an array, in no order.

    An array of arrays of different lengths cannot be bound, and the driver would look at every number twice.
    """
    keys = set(map(_key_text, index_terms(content)))
    if user_id is not None:
        keys.add(str(user_key(user_id)))
    return f"{{{','.join(keys)}}}"


def searchable(content: str, user_id: str | None) -> tuple[str | None, list[int]]:
    """Return what is kept of a content for searching: the folded text where ``FOLDED`` is not that, and the keys."""
    return kept_folding(content), term_keys(index_terms(content), user_id)


def kept_folding(content: str) -> str | None:
    """Return the case-folded content, or None where only ASCII letters change."""
    if content.isascii():
        return None
    folded = fold(content)
    return None if folded.encode() == content.encode().lower() else folded
