"""A ready-made observer that replaces e-mail addresses and phone numbers by keyed hashes before an item is stored."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import unicodedata
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from memoranda.errors import InputError
from memoranda.items import MemoryItem
from memoranda.store import Observer
from memoranda.store.backend import fields_of

KEY_VARIABLE = "MEMORANDA_REDACTION_KEY"

_EMAIL = re.compile(
    r"""
    (?: "[^"\r\n]{1,62}" | (?<![\w.+'-]) [\w.+%'-]{1,64}? )         # a quoted or a plain local part
    (?: [@＠] | %40 )
    (?: \[[0-9A-Fa-f:.]{2,45}\] | [\w-]{1,63} (?: \. [\w-]{1,63} )+ )  # an address literal or a domain with a dot
    """,
    re.VERBOSE,
)
_AT_SIGNS = ("@", "＠", "%40")
# The longest run of digits in groups; whether it is a phone number is decided by _is_phone.
_NUMBER = re.compile(
    r"(?<![\w.,@/-])[+＋]?(?:\([+＋]?\d{1,4}\)|\d)"
    r"(?:[ \u00a0\u2007\u2009\u202f().\-\u2010-\u2015\u2212/]{0,3}\d){5,24}+(?!(?!x\d)\w)"
)
_NOT_A_PHONE = re.compile(
    r"\d{4}[-./]\d{1,2}[-./]\d{1,2}(?: \d{1,2})?|\d{1,2}[-./ ]\d{1,2}[-./ ]\d{4}|\d{1,3}(?:\.\d{1,3}){3}|\d+\.\d+"
)
_SHORT_PHONE = re.compile(r"\d{3}[-. ]\d{4}")
_TRUNK_ZERO = re.compile(r"(?<=\d)[^\d(]{0,2}\(0\)")
_LETTERS = str.maketrans("0123456789abcdef", "abcdefghijklmnop")

_STRUCTURAL: Mapping[str, frozenset[str]] = {
    "tool": frozenset({"tool_call_id", "also_answers"}),
    "summary": frozenset({"sources", "compaction", "archives"}),
}
"""The fields of a type that hold the ids of items and calls, which link them to each other."""

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_QUANTITY = re.compile(
    r"(?:amount|byte|count|date|duration|epoch|length|ms|ns|offset|price|revision|second|sequence|size|time|timestamp|token|"
    r"total|version)s?",
    re.IGNORECASE,
)
"""The last word of a key whose number is a quantity, a time or a version."""


def _is_phone(run: str) -> bool:
    """Return True if a run of digits is a phone number rather than a date, an address, a decimal or a short number."""
    digits = sum(character.isdecimal() for character in run)
    if not 7 <= digits <= 15:
        return False
    if "+" in run or "＋" in run or run.startswith("00"):
        return True
    if _NOT_A_PHONE.fullmatch(run):
        return False
    groups = re.findall(r"\d+", run)
    if len(groups) == 1:
        return digits >= 10
    return bool(_SHORT_PHONE.fullmatch(run)) or (digits >= 9 and min(map(len, groups[1:])) >= 2)


def _dialled(run: str) -> str:
    """Return what is dialled: plain digits, without the zero in ``+49 (0)170`` and without the sign for abroad."""
    international = run[0] in "+＋" or run.startswith("00")
    if international:
        run = _TRUNK_ZERO.sub("", run, count=1)
    digits = "".join(str(unicodedata.decimal(character)) for character in run if character.isdecimal())
    return digits.removeprefix("00")


def _is_phone_number(number: float, key: str) -> bool:
    """Return True if a number can be dialled: ten to fifteen digits, not a time and, by its key, not a quantity.

    Seconds and milliseconds since 1970 start with a one until 2033, which no phone number of their length does.
    """
    if isinstance(number, bool) or not 2 * 10**9 <= number < 10**15 or number != int(number):
        return False
    whole = int(number)
    words = _WORD.findall(key)
    is_quantity = bool(words) and _QUANTITY.fullmatch(words[-1]) is not None
    return not (is_quantity or 10**12 <= whole < 2 * 10**12 or _is_moment(str(whole)))


def _is_moment(digits: str) -> bool:
    """Return True if digits are a date with a time, such as 20261115020000."""
    if len(digits) != 14 or digits[:2] not in ("19", "20"):
        return False
    try:
        datetime.strptime(digits, "%Y%m%d%H%M%S")  # noqa: DTZ007  # only whether there is such a time
    except ValueError:
        return False
    return True


class Redactor(Observer):
    """Replaces e-mail addresses and phone numbers in an item by hashes, such as ``[email:kdmfpoahegblcnij]``.

    Content, name, ``metadata.extra`` and the fields of the item's own type are searched at any depth: keys, values and
    numbers. JSON in a text, such as the arguments of a tool call, is searched as JSON. Ids that link items and calls
    are not changed: an item's own, those of its scope, of its tool calls and of the sources of a summary. So do not use
    addresses as user ids. An ``id`` within ``extra`` or within arguments is searched like anything else.

    The same address has the same hash, whatever its case or spacing, so memories of different people stay distinct. The
    hash is keyed, since there are too few phone numbers for a plain hash to hide them. The key is ``key``, else the
    environment's ``MEMORANDA_REDACTION_KEY``, else a random one for this object: then the hashes of two programs, or of
    two runs, differ.

    A phone number is recognised by its form: digits with a leading ``+`` or in groups, or at least ten in a row. Long
    plain numbers may be taken for one. Dates, decimals and IP addresses are not, nor are numbers outside of text that
    are seconds or milliseconds since 1970 or have a key such as ``size``, ``version`` or ``timestamp``. A number that
    is replaced becomes text.
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
        """Return the item with addresses and numbers replaced."""
        changed: dict[str, Any] = {"content": self.redact_text(item.content)}
        if item.metadata.extra:
            changed["metadata"] = item.metadata.model_copy(update={"extra": self._redacted(item.metadata.extra)})
        own = {name: getattr(item, name) for name in fields_of(type(item)).names} | (item.model_extra or {})
        structural = _STRUCTURAL.get(item.memory_type, frozenset()) | {"archived_by", "group", "payload_format"}
        for name, value in own.items():
            if name not in structural:
                changed[name] = self._own_value(item, name, value)
        for name in tuple(item.model_extra or ()):
            new_name = self._new_key(name, own) if self.redact_text(name) != name else name
            if new_name != name:
                changed[new_name] = changed.pop(name)
                delattr(item, name)
        for name, value in changed.items():
            setattr(item, name, value)
        return item

    def redact_text(self, text: str) -> str:
        """Return the text with every address and number replaced. Doing it again changes nothing.

        A text that is a JSON object, list or string stays one.
        """
        if text.lstrip()[:1] in ("{", "[", '"'):
            try:
                value = json.loads(text)
                redacted = self._redacted(value)
                # What was written in ASCII may hold escapes that no store takes in any other form.
                return text if redacted == value else json.dumps(redacted, ensure_ascii=text.isascii())
            except (ValueError, RecursionError):
                pass  # It only looks like JSON.
        if self._emails and any(sign in text for sign in _AT_SIGNS):
            text = _EMAIL.sub(self._hashed_email, text)
        if self._phones:
            text = _NUMBER.sub(self._hashed_phone, text)
        return text

    def _own_value(self, item: MemoryItem, name: str, value: Any) -> Any:
        """Return the redacted value of a field of the item's own type. Calls keep their ids."""
        if item.memory_type == "ai" and name == "tool_calls" and isinstance(value, (list, tuple)):
            return [self._with_its_id(call) for call in value]
        return self._redacted(value, name)

    def _with_its_id(self, call: Any) -> Any:
        redacted = self._redacted(call)
        return redacted | {"id": call["id"]} if isinstance(call, dict) and isinstance(call.get("id"), str) else redacted

    def _redacted(self, value: Any, key: str = "") -> Any:
        """Return any JSON value with addresses and numbers replaced; ``key`` is its key."""
        if isinstance(value, str):
            return self.redact_text(value)
        if isinstance(value, (int, float)):
            if self._phones and _is_phone_number(value, key):
                return self._hash("phone", str(int(value)))
            return value
        if isinstance(value, dict):
            redacted: dict[Any, Any] = {}
            for name, inner in value.items():
                redacted[self._new_key(name, redacted)] = self._redacted(inner, str(name))
            return redacted
        if isinstance(value, (list, tuple)):
            return [self._redacted(inner, key) for inner in value]
        return value

    def _new_key(self, key: Any, taken: Mapping[Any, Any]) -> Any:
        """Return a key with addresses and numbers replaced; two spellings of one address stay two keys."""
        if not isinstance(key, str):
            return key
        redacted = name = self.redact_text(key)
        number = 2
        while name in taken:
            name = f"{redacted}#{number}"
            number += 1
        return name

    def _hashed_email(self, found: re.Match[str]) -> str:
        return self._hash("email", found[0].replace("＠", "@").replace("%40", "@").casefold())

    def _hashed_phone(self, found: re.Match[str]) -> str:
        run = found[0].removesuffix(".0")  # Tables write a number this way if it went through a decimal column.
        return self._hash("phone", _dialled(run)) if _is_phone(run) else found[0]

    def _hash(self, kind: str, value: str) -> str:
        digest = hmac.new(self._key, f"{kind}:{value}".encode(), hashlib.sha256).hexdigest()[:16]
        # Only letters, so that a hash is never taken for a number itself.
        return f"[{kind}:{digest.translate(_LETTERS)}]"
