"""Who speaks, in texts and in messages: an item's type says the role, and no name can pose as one."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping

from memoranda.items import BUILTIN_TYPES, MemoryItem

ROLES = frozenset({"system", "developer", "user", "human", "assistant", "ai", "model", "tool", "function"})
SOMEONE_ELSE = "someone else"
"""Who speaks in an item that is a person's and that its user did not write: see :func:`is_someone_elses`."""

_AUTHORITIES = frozenset({"system", "developer", "assistant"})
_TYPES: Mapping[str, str] = {
    "user": "human",
    "human": "human",
    "assistant": "ai",
    "ai": "ai",
    "model": "ai",
    "chatbot": "ai",
    "tool": "tool",
    "function": "tool",
    "system": "system",
    "developer": "system",
}
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


def type_of_role(role: str) -> str | None:
    """Return the ``memory_type`` of a role, such as ``ai`` for ``model``; None for a word that is none."""
    return _TYPES.get(role.casefold())


def may_speak_as(role: str, memory_types: Collection[str]) -> bool:
    """Return True if a message that consists of items of these types may have a role.

    Results come in a message of a person, a model or a tool, and text may stand beside them there. Whatever has no type
    of its own speaks for a person at most. A word that no provider takes for a role says nothing.
    """
    claimed = type_of_role(role)
    speaking = {kind for kind in memory_types if kind != "tool"}
    if claimed is None:
        return not is_role(role)
    if claimed == "tool":
        return "tool" in memory_types
    if not speaking:
        return claimed != "system"
    return {_speaks_as(kind) for kind in speaking} == {claimed}


def _speaks_as(memory_type: str) -> str:
    return memory_type if memory_type in ("ai", "system") else "human"


def _is_one_of(roles: frozenset[str], word: str) -> bool:
    pattern = "".join(letter if letter.isascii() else "." for letter in word)
    return pattern.strip(".") != "" and any(re.fullmatch(pattern, role) for role in roles)


def speaker(item: MemoryItem, words: Mapping[str, str] | None = None) -> str:
    """Return who speaks: the role that the item's type gives it and, in brackets, the name, such as ``human (Ada)``.

    ``words`` say a type otherwise. A type that is not the core's is shown as a name is.
    """
    kind, known = item.memory_type, item.memory_type in BUILTIN_TYPES
    # A model's attribute that is not there takes longer to look for than all the rest.
    tool = item.__dict__.get("tool_name") or (item.__pydantic_extra__ or {}).get("tool_name")
    names = [str(tool or item.name or ""), "" if known or kind == "item" else kind]
    shown = ", ".join(filter(None, map(plain_name, filter(None, names))))
    role = kind if known else "item"
    role = (words or {}).get(role, role)
    return f"{role} ({shown})" if shown else role
