"""The owners of items: users, sessions, tasks, agents, namespaces and spaces, and how they are listed.

Spaces are owners beside users, for what several people or agents share. What lies in one has its owner in
``metadata.user_id``, under a name that no user can have: ``space:acme-support``. So everything that keeps users apart
keeps spaces apart: scopes, keys, exports, forgetting. Grants, which say who may read a space, are records of an owner
of their own, the directory: see the distribution ``memoranda-spaces``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, get_args

from memoranda.errors import InputError, quoted
from memoranda.items import SCOPE_FIELDS, MemoryItem
from memoranda.shapes import truth, whole_number

if TYPE_CHECKING:
    from memoranda.items import MemoryMetadata

OwnerField = Literal["user_id", "session_id", "task_id", "agent_id", "namespace"]


@dataclass(frozen=True, slots=True)
class Owner:
    """One value of a field: how many items have it, and when the first and the last of them were created."""

    value: str | tuple[str, ...]
    count: int
    first: str
    last: str

    def joined(self, other: Owner) -> Owner:
        """Merge with another owner of the same value."""
        return Owner(self.value, self.count + other.count, min(self.first, other.first), max(self.last, other.last))


@dataclass(frozen=True, slots=True)
class Listing:
    """Selects owners: by a field, and for namespaces by depth and suffix."""

    by: OwnerField = "user_id"
    depth: int | None = None
    suffix: tuple[str, ...] = ()
    counts: bool = True
    """True if counts and times are wanted; where not, an engine need not read the items."""

    def of(self, items: Iterable[MemoryItem]) -> list[Owner]:
        """Return the owners of items, in order, for an engine that has to read them all."""
        found: dict[str, Owner] = {}
        for item in items:
            key = self._key(item)
            if key is not None:
                value = namespace_of(key) if self.by == "namespace" else key
                one = Owner(value, 1, item.created_at, item.created_at)
                found[key] = found[key].joined(one) if key in found else one
        return list(self.shown(found[key] for key in sorted(found)))

    def _key(self, item: MemoryItem) -> str | None:
        if self.by == "namespace":
            return namespace_key(item.metadata.namespace) or None
        value: str | None = getattr(item.metadata, self.by)
        return value

    def shown(self, owners: Iterable[Owner]) -> Iterator[Owner]:
        """Yield the owners that have the suffix, merged below the depth; owners come in order."""
        if self.by != "namespace":
            yield from owners
            return
        waiting: Owner | None = None
        for owner in owners:
            assert isinstance(owner.value, tuple)
            if self.suffix and owner.value[-len(self.suffix) :] != self.suffix:
                continue
            cut = owner
            if self.depth is not None and len(owner.value) > self.depth:
                cut = Owner(owner.value[: self.depth], owner.count, owner.first, owner.last)
            if waiting is not None and waiting.value != cut.value:
                yield waiting
                waiting = None
            waiting = cut if waiting is None else waiting.joined(cut)
        if waiting is not None:
            yield waiting

    async def shown_by_page(self, pages: AsyncGenerator[Iterable[Owner], None]) -> AsyncGenerator[Owner, None]:
        """Yield what :meth:`shown` does, of owners that come in pages: a page may end within a namespace's depth."""
        waiting: Owner | None = None
        async with aclosing(pages):
            async for page in pages:
                for owner in self.shown(page):
                    if waiting is not None and waiting.value != owner.value:
                        yield waiting
                        waiting = None
                    waiting = owner if waiting is None else waiting.joined(owner)
        if waiting is not None:
            yield waiting


def check_listing(by: str, depth: int | None, suffix: Iterable[str], counts: bool = True) -> Listing:
    """Return the checked listing. Raises InputError, naming the argument."""
    if by not in get_args(OwnerField):
        known = ", ".join((*SCOPE_FIELDS, "namespace"))
        raise InputError(f"Owners cannot be listed by {quoted(by, text=True)}. Choose one of {known}.", field="by")
    end = () if isinstance(suffix, str) else tuple(suffix)
    if isinstance(suffix, str) or not all(isinstance(element, str) for element in end):
        raise InputError("suffix must be a tuple of texts.", field="suffix")
    if by != "namespace" and (depth is not None or end):
        raise InputError("depth and suffix are for namespaces alone.", field="by")
    if depth is not None and whole_number(depth, "depth") == 0:
        raise InputError("depth must be at least 1.", field="depth")
    return Listing(by, depth, end, truth(counts, "counts"))  # type: ignore[arg-type]  # checked above


def namespace_key(namespace: Sequence[str]) -> str:
    """Return a namespace as one text, by which namespaces are ordered; those above it are its beginnings.

    Every element ends in ``/``; ``~1`` stands for a slash inside of an element and ``~0`` for a tilde.
    """
    return "".join([element.replace("~", "~0").replace("/", "~1") + "/" for element in namespace])


def namespace_of(key: str) -> tuple[str, ...]:
    """Return the namespace that :func:`namespace_key` made this text from."""
    if "~" not in key:
        return tuple(key.split("/")[:-1])
    return tuple([element.replace("~1", "/").replace("~0", "~") for element in key.split("/")[:-1]])


def is_below(namespace: tuple[str, ...], place: tuple[str, ...]) -> bool:
    """Return True if a namespace is a place or lies below it, element by element."""
    return namespace[: len(place)] == place


def key_bounds(place: Sequence[str]) -> tuple[str, str]:
    """Return the keys between which those of a place and of all below it lie: the first is one of them, the other none.

    For engines that compare texts by their characters' numbers. The root has no bounds: every key lies below it.
    """
    key = namespace_key(place)
    return key, key[:-1] + chr(ord("/") + 1)


PREFIX = "space:"
"""How the owner of what lies in a space begins."""

DIRECTORY = "space:/grants"
"""The owner of all grants. No space has this name."""

Reach = Literal["own", "granted"]
"""How far a read looks: at the scope of its handle alone, or at the spaces that were granted to it as well."""

Spaces = Literal["granted"] | tuple[str, ...]
"""Which spaces a handle reaches: all that were granted to it, or those of them that are named."""

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")
_LOOK_ALIKES = str.maketrans(
    # What is drawn like a letter of the prefix, by letter: Cyrillic, Greek, Coptic, Armenian, Cherokee, Lisu, phonetic
    # and mathematical letters; and signs like a colon.
    {
        ord(sign): letter
        for letter, signs in {
            "s": "ѕꜱƽտᏚᏕꓢ",
            "p": "рρⲣᴘϱ⍴Ꮲꓑ",
            "a": "аɑαᴀ⍺Ꭺꓮ",
            "c": "сσⲥᴄᏟꓚ",
            "e": "еεҽᴇ℮ꬲᎬꓰ",
            ":": "∶ː˸꞉։׃܃܄᛬⁚ꓽःઃ᠃᠉︰",
        }.items()
        for sign in signs
    }
)


def is_reserved(owner: str) -> bool:
    """Return True if an owner has a name reserved for spaces, or one that looks like it.

    Case, compatibility forms, characters that take no space, and look-alikes of other scripts make no difference.
    """
    if owner.isascii() and owner.isprintable() and " " not in owner:
        return owner[: len(PREFIX)].lower() == PREFIX
    folded = unicodedata.normalize("NFKC", owner.translate(_LOOK_ALIKES)).casefold()
    decomposed = unicodedata.normalize("NFKD", folded).translate(_LOOK_ALIKES)
    seen = (character for character in decomposed if unicodedata.category(character)[0] not in "CMZ")
    return "".join(islice(seen, len(PREFIX))) == PREFIX


def check_user(owner: str, field: str = "user_id") -> None:
    """Raise InputError for a user's id that is reserved for spaces."""
    if is_reserved(owner):
        raise InputError(
            f"{field} begins like the owner of a space ({PREFIX!r}), so that no user can have it. To reach a space, "
            f"call store.space(name).",
            field=field,
        )


def check_name(name: str, what: str = "space") -> str:
    """Return the name of a space or of a group. Raises InputError for unsafe characters."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(
            f"{quoted(name, text=True)} cannot be the name of a {what}. A name has at most 64 of the characters a to "
            f"z, 0 to 9, '.', '_' and '-', and begins and ends with a letter or a digit.",
            field=what,
        )
    return name


def space_owner(name: str) -> str:
    """Return the ``user_id`` of items in a space. Raises InputError for an invalid name."""
    return PREFIX + check_name(name)


def space_of(place: Any) -> str | None:
    """Return the name of the space of an item or metadata; None if it belongs to a user."""
    metadata: MemoryMetadata = getattr(place, "metadata", place)
    owner = metadata.user_id
    return owner[len(PREFIX) :] if owner is not None and owner.startswith(PREFIX) and owner != DIRECTORY else None


def checked_spaces(spaces: Any) -> Spaces:
    """Return the spaces that a handle reaches. Raises InputError if none is named."""
    if isinstance(spaces, str):
        if spaces == "granted":
            return "granted"
        raise InputError(f"spaces is 'granted' or a list of names, not {quoted(spaces, text=True)}.", field="spaces")
    try:
        names = list(spaces)
    except TypeError:
        raise InputError("spaces is 'granted' or a list of names.", field="spaces") from None
    return tuple(dict.fromkeys(map(check_name, names)))
