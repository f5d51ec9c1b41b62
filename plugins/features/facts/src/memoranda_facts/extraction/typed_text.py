"""A text as rules read it, whichever way it was typed."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_AS_READ = re.compile(r"[\x00-\x7f¡-¬®-˿‐-‧‰-⁞]*")
"""Characters that rules read as they are; none of them joins another."""


def readable(text: str) -> tuple[str, Sequence[int]]:
    """Return a text with composed letters and plain spaces and without invisible characters, and where it stood.

    The numbers are the place in the original of each character, and of the end; none if the text is as it was.
    """
    if _AS_READ.fullmatch(text):
        return text, ()
    read: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        kind = unicodedata.category(character)
        if kind == "Cf":
            continue
        if unicodedata.combining(character) and read:
            composed = unicodedata.normalize("NFC", read[-1] + character)
            if len(composed) == 1:
                read[-1] = composed
                continue
        read.append({"Zs": " ", "Zl": "\n", "Zp": "\n"}.get(kind, character))
        places.append(place)
    return "".join(read), [*places, len(text)]
