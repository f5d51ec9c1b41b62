"""A ready-made observer that replaces e-mail addresses and phone numbers by keyed hashes before an item is stored."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from typing import Any

from recollect.errors import InputError
from recollect.items import MemoryItem
from recollect.observing import Observer

KEY_VARIABLE = "RECOLLECT_REDACTION_KEY"

_EMAIL = re.compile(
    r"""
    (?: "[^"\r\n]{1,62}" | (?<![\w.+'-]) [\w.+%'-]{1,64} )          # a quoted or a plain local part
    [@＠]
    (?: \[[0-9A-Fa-f:.]{2,45}\] | [\w-]{1,63} (?: \. [\w-]{1,63} )+ )  # an address literal or a domain with a dot
    """,
    re.VERBOSE,
)
# The longest run of digits in groups; whether it is a phone number is decided by _is_phone.
_NUMBER = re.compile(r"(?<![\w.,@/-])\+?(?:\(\+?\d{1,4}\)|\d)(?:[ \u00a0\u202f().\-/]{0,3}\d){5,24}+(?!(?!x\d)\w)")
_NOT_A_PHONE = re.compile(
    r"\d{4}[-./]\d{1,2}[-./]\d{1,2}(?: \d{1,2})?|\d{1,2}[-./ ]\d{1,2}[-./ ]\d{4}|\d{1,3}(?:\.\d{1,3}){3}|\d+\.\d+"
)
_SHORT_PHONE = re.compile(r"\d{3}[-. ]\d{4}")
_LETTERS = str.maketrans("0123456789abcdef", "abcdefghijklmnop")
_UNTOUCHED = frozenset({"tool_call_id"})


def _is_phone(run: str) -> bool:
    """Whether a run of digits is a phone number rather than a date, an address, a decimal or a short number."""
    digits = sum(character.isdecimal() for character in run)
    if not 7 <= digits <= 15:
        return False
    if "+" in run or run.startswith("00"):
        return True
    if _NOT_A_PHONE.fullmatch(run):
        return False
    groups = re.findall(r"\d+", run)
    if len(groups) == 1:
        return digits >= 10
    return bool(_SHORT_PHONE.fullmatch(run)) or (digits >= 9 and min(map(len, groups[1:])) >= 2)


class Redactor(Observer):
    """Replaces e-mail addresses and phone numbers in an item by hashes, such as ``[email:kdmfpoahegblcnij]``.

    Content, name, ``metadata.extra`` and the fields of the item's own type are searched, at any depth. Ids are not: an
    item's own, those of its scope and of its tool calls stay what they are, so use no addresses as user ids. The same
    address gives the same hash, in whatever case or spacing it is written, so that memories of one person can still be
    told from those of another.

    The hash is keyed, since there are too few phone numbers for a plain one to hide them. The key is ``key``, else the
    environment's ``RECOLLECT_REDACTION_KEY``, else one that is made up for this object: the hashes of two programs, or
    of two runs, are then different.

    What is a phone number is judged by its form: digits with a leading ``+`` or in groups, or ten and more in a row.
    Long plain numbers may be taken for one; dates, decimals and IP addresses are not.
    """

    def __init__(self, key: str | bytes | None = None, *, emails: bool = True, phones: bool = True) -> None:
        given = os.environ.get(KEY_VARIABLE) if key is None else key
        if key is not None and not key:
            raise InputError("The key of a Redactor must not be empty.", field="key")
        self._key = (given.encode() if isinstance(given, str) else given) or secrets.token_bytes(32)
        self._emails = emails
        self._phones = phones

    def __repr__(self) -> str:
        return f"Redactor(emails={self._emails}, phones={self._phones})"

    def before_add(self, item: MemoryItem) -> MemoryItem:
        """Return the item without addresses and numbers."""
        changed: dict[str, Any] = {"content": self.redact_text(item.content)}
        if item.name is not None:
            changed["name"] = self.redact_text(item.name)
        for name in type(item).own_fields - _UNTOUCHED:
            changed[name] = self._redacted(getattr(item, name))
        if item.metadata.extra:
            changed["metadata"] = item.metadata.model_copy(update={"extra": self._redacted(item.metadata.extra)})
        for name, value in (item.model_extra or {}).items():
            changed[name] = self._redacted(value)
        for name, value in changed.items():
            setattr(item, name, value)
        return item

    def redact_text(self, text: str) -> str:
        """Return the text with every address and number replaced. Doing it again changes nothing."""
        if self._emails and ("@" in text or "＠" in text):
            text = _EMAIL.sub(self._hashed_email, text)
        if self._phones:
            text = _NUMBER.sub(self._hashed_phone, text)
        return text

    def _redacted(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.redact_text(value)
        if isinstance(value, dict):
            return {
                self.redact_text(key) if isinstance(key, str) else key: inner
                if key == "id" or key in _UNTOUCHED
                else self._redacted(inner)
                for key, inner in value.items()
            }
        if isinstance(value, (list, tuple)):
            return [self._redacted(inner) for inner in value]
        return value

    def _hashed_email(self, found: re.Match[str]) -> str:
        return self._hash("email", found[0].replace("＠", "@").casefold())

    def _hashed_phone(self, found: re.Match[str]) -> str:
        if not _is_phone(found[0]):
            return found[0]
        digits = "".join(character for character in found[0] if character.isdecimal())
        return self._hash("phone", digits.removeprefix("00"))

    def _hash(self, kind: str, value: str) -> str:
        digest = hmac.new(self._key, f"{kind}:{value}".encode(), hashlib.sha256).hexdigest()[:16]
        # Letters alone, so that a hash is never taken for a number itself.
        return f"[{kind}:{digest.translate(_LETTERS)}]"
