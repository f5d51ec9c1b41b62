"""Who speaks, in texts and in messages: an item's type says the role, and no name can pose as one."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

from memoranda.items import BUILTIN_TYPES, MemoryItem

ROLES = frozenset({"system", "developer", "user", "human", "assistant", "ai", "model", "tool", "function"})
_AUTHORITIES = frozenset({"system", "developer", "assistant"})
_SIGNS = re.compile(r'[\[\](){}<>|\\/:;"`#*=]')
_MAX_NAME = 80


def plain_name(name: str) -> str:
    """Return a name in one line, without control characters and the signs that entries and markup are made of."""
    seen = (each for each in name if unicodedata.category(each) != "Cf")  # A reader cannot see these.
    visible = "".join(each if each.isprintable() else " " for each in seen)
    return " ".join(_SIGNS.sub(" ", visible).split())[:_MAX_NAME].strip()


def is_role(name: str) -> bool:
    """True if a name is made of words for roles, or begins with one that has authority, in any case or width.

    Letters that are not Latin count as whatever they may look like, in a word that has Latin ones too.
    """
    folded = unicodedata.normalize("NFKD", plain_name(name)).casefold().split()
    words = [word for each in folded if (word := "".join(filter(str.isalnum, each)))]
    return bool(words) and (all(_is_one_of(ROLES, word) for word in words) or _is_one_of(_AUTHORITIES, words[0]))


def _is_one_of(roles: frozenset[str], word: str) -> bool:
    pattern = "".join(letter if letter.isascii() else "." for letter in word)
    return pattern.strip(".") != "" and any(re.fullmatch(pattern, role) for role in roles)


def speaker(item: MemoryItem, words: Mapping[str, str] | None = None) -> str:
    """Return who speaks: the role that the item's type gives it and, in brackets, the name, such as ``human (Ada)``.

    ``words`` say a type otherwise. A type that is not the core's is shown as a name is.
    """
    kind, known = item.memory_type, item.memory_type in BUILTIN_TYPES
    names = [str(getattr(item, "tool_name", "") or item.name or ""), "" if known or kind == "item" else kind]
    shown = ", ".join(filter(None, map(plain_name, names)))
    role = (words or {}).get(kind, kind) if known else "item"
    return f"{role} ({shown})" if shown else role
