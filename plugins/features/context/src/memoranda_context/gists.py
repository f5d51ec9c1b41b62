"""What the words of an item come to: whether they are worth showing, and the part of a long text that matters.

A gist is found out once: prompt after prompt looks at the same items. No text is kept, only numbers that stand for it,
so nothing here outlives the items of a store that forgets them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from memoranda.items import MemoryItem
from memoranda_backend.text import fold_words, has_statement, is_passing_remark, is_small_talk, is_unspaced

_MOST_KEPT = 1 << 15

_MOST_WORDS_OF_CHATTER = 4
"""An answer of more words is more than politeness."""

_TELLS = re.compile(r"\d|(?<=\S )[A-ZÀ-ÞА-Я]")
"""A figure, or a name after the first word."""

_HEAD = 120
"""How many characters of a beginning say what a memory is about."""

_SENTENCE_END = re.compile(r"[.!?。！？؟…](?=\s|$)|\n")
_GAP = " … "


class Gist(NamedTuple):
    """What decides whether an item is worth showing, whatever is asked."""

    words: int
    """The same for items of one speaker that say the same."""
    is_small_talk: bool
    """True if it greets, thanks or agrees, and of a person's words also if they only comment on the moment."""
    says_something: bool
    """False for an old question or an empty phrase: it is of use only beside what was said around it."""


_gists: dict[int, Gist] = {}


def gists_of(items: Iterable[MemoryItem]) -> list[Gist]:
    """Return the gist of each item. Several threads may ask."""
    gists = []
    for item in items:
        key = hash((item.memory_type, item.name, item.content))
        gist = _gists.get(key)
        if gist is None:
            if len(_gists) >= _MOST_KEPT:
                _gists.clear()
            gist = _gists[key] = _gist(item)
        gists.append(gist)
    return gists


def words_of(items: Iterable[MemoryItem]) -> set[int]:
    """Return what items say: :attr:`Gist.words` of each."""
    return {gist.words for gist in gists_of(items)}


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


def is_chatter(answer: str) -> bool:
    """Return True for an answer that says something only to those who heard the question: "Thanks for telling me.".

    It has few words, and neither a name nor a figure.
    """
    words = fold_words(answer)
    if not words or any(map(is_unspaced, words)):
        return not words
    return len(words) <= _MOST_WORDS_OF_CHATTER and not _TELLS.search(answer)


def excerpt(item: MemoryItem, passage: str, most: int) -> MemoryItem:
    """Return an item with at most about so many characters of its content: its beginning, "…", and a passage of it."""
    content = item.content
    if len(content) <= most:
        return item
    head = _cut(content, max(most - len(passage), _HEAD) if passage else most)
    rest = passage.strip()
    if not rest or content.find(rest) < len(head):
        shown = _cut(content, most)
    else:
        shown = f"{head}{_GAP}{_cut(rest, max(most - len(head), _HEAD))}"
    return item.model_copy(update={"content": f"{shown} … (memory {item.id})"})


def _cut(text: str, most: int) -> str:
    """Return the beginning of a text: whole sentences if one ends in time, else whole words."""
    if len(text) <= most:
        return text
    ends = [found.end() for found in _SENTENCE_END.finditer(text, most // 2, most)]
    if ends:
        return text[: ends[-1]].rstrip()
    space = text.rfind(" ", most // 2, most)
    return text[: space if space > 0 else most].rstrip()
