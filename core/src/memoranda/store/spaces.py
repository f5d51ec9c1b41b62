"""Spaces: owners beside users, for what several people or agents share.

What lies in a space has its owner in ``metadata.user_id``, under a name that no user can have: ``space:acme-support``.
So everything that keeps users apart keeps spaces apart: scopes, keys, exports, forgetting. Grants, which say who may
read a space, are records of an owner of their own, the directory: see the distribution ``memoranda-spaces``.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from memoranda.errors import InputError, quoted

if TYPE_CHECKING:
    from memoranda.items import MemoryMetadata

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
