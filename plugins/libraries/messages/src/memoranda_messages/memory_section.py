"""The section of a prompt that holds memories: how it begins and ends, and why no memory can end it.

Whoever puts stored text between these tags passes it through :func:`without_section_tags` first. Whoever reads a prompt
that was stored tells what was remembered from what was said with :func:`outside_memories`.
"""

from __future__ import annotations

import re

MEMORIES, MEMORIES_END = "<memories>", "</memories>"

# A model reads tags in any case, with spaces, in other widths, in letters that look alike, and with characters between
# them that no reader sees.
_UNSEEN = (
    "[\\s\u00ad\u034f\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
    "\U000e0000-\U000e0fff]*"
)
_BEGINNINGS = "[<\u2039\u2329\u27e8\u3008\ufe64\uff1c]"
_SLASHES = "[/\\\\\u2044\u2215\u29f8\uff0f]?"
_LETTERS = {
    "m": "mM\u043c\u041c\u039c\uff4d\uff2d",
    "e": "eE\u0435\u0415\u0395\uff45\uff25",
    "o": "oO0\u043e\u041e\u03bf\u039f\uff4f\uff2f",
    "r": "rR\u0433\uff52\uff32",
    "i": "iIl1\u0456\u0406\u03b9\u0399\uff49\uff29",
    "s": "sS\u0455\u0405\uff53\uff33",
}
_NAME = _UNSEEN.join(f"[{_LETTERS[letter]}]" for letter in "memories")
_TAG = re.compile(f"{_BEGINNINGS}(?={_UNSEEN}{_SLASHES}{_UNSEEN}{_NAME})")
_SECTION = re.compile(f"{MEMORIES}(?:.*{MEMORIES_END}|.*)", re.DOTALL | re.IGNORECASE)


def without_section_tags(text: str) -> str:
    """Return a text in which nothing can pass for the beginning or the end of the section: ``&lt;/memories>``."""
    if text.isascii() and "<" not in text:
        return text
    return _TAG.sub("&lt;", text)


def outside_memories(text: str) -> str:
    """Return a stored prompt with spaces instead of what was remembered in it, so that places stay the same.

    That is all from the first beginning of a section to the last end, or where none ends, the rest: what stands
    between two sections cannot be told from a memory that poses as their end.
    """
    return _SECTION.sub(lambda found: " " * len(found.group()), text)
