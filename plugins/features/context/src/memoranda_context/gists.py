"""What the words of an item come to, found out once: prompt after prompt looks at the same items.

No text is kept, only numbers that stand for it, so nothing here outlives the items of a store that forgets them.
"""

from __future__ import annotations

from typing import NamedTuple

from memoranda.items import MemoryItem
from memoranda_backend.text import fold_words, has_statement, is_passing_remark, is_small_talk
from memoranda_context.chatter import is_chatter

_MOST_KEPT = 1 << 15


class Gist(NamedTuple):
    """What decides whether an item is worth showing, whatever is asked."""

    words: int
    """The same for items of one speaker that say the same."""
    is_small_talk: bool
    """True if it greets, thanks or agrees, and of a person's words also if they only comment on the moment."""
    says_something: bool
    """False for an old question or an empty phrase: it is of use only beside what was said around it."""


_gists: dict[int, Gist] = {}


def gist_of(item: MemoryItem) -> Gist:
    """Return the gist of an item. Several threads may ask."""
    key = hash((item.memory_type, item.name, item.content))
    gist = _gists.get(key)
    if gist is None:
        if len(_gists) >= _MOST_KEPT:
            _gists.clear()
        gist = _gists[key] = _gist(item)
    return gist


def _gist(item: MemoryItem) -> Gist:
    content = item.content
    words = fold_words(content)
    small_talk = is_small_talk(content) or (item.memory_type == "human" and is_passing_remark(content))
    if item.memory_type == "human" and item.name is None:
        says_something = not small_talk and has_statement(content)
    elif item.memory_type == "ai":
        says_something = not is_chatter(content)
    else:
        says_something = len(words) > 1 or item.memory_type != "human"
    return Gist(hash((item.name or "", *words)), small_talk, says_something)
