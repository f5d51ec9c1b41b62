"""The objects of facts: texts, numbers, dates and references to subjects, as JSON and back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from memoranda.errors import InputError
from memoranda.items import utc_text


@dataclass(frozen=True, slots=True)
class Ref:
    """A reference to another subject, which :meth:`Facts.follow` goes on from."""

    subject: str

    def __str__(self) -> str:
        return self.subject


Object = str | int | float | bool | date | Ref
"""What a fact may say of its subject. A datetime is a date, too."""


def same_text(text: str) -> str:
    """Return a text in the form in which names and values are compared."""
    return " ".join(text.replace("_", " ").split()).casefold()


def as_object(given: object) -> Object:
    """Return a value as facts hold it. Raises InputError for what is no text, number, date or reference."""
    if isinstance(given, str):
        given = given.strip()
        if given:
            return given
        raise InputError("The object of a fact is empty.", field="object")
    if isinstance(given, Ref):
        if given.subject.strip():
            return Ref(given.subject.strip())
        raise InputError("A reference to a subject is empty.", field="object")
    if isinstance(given, (bool, int, date)) or (isinstance(given, float) and math.isfinite(given)):
        return given
    raise InputError(
        f"The object of a fact is a text, a finite number, a date or a Ref, not {type(given).__name__}.", field="object"
    )


def dumped(value: Object) -> Any:
    """Return an object as JSON holds it."""
    if isinstance(value, Ref):
        return {"ref": value.subject}
    if isinstance(value, datetime):
        return {"date": utc_text(value)}
    if isinstance(value, date):
        return {"date": value.isoformat()}
    return value


def loaded(held: Any) -> Object:
    """Return an object that :func:`dumped` wrote."""
    if not isinstance(held, dict):
        return as_object(held)
    if "ref" in held:
        return as_object(Ref(held["ref"]))
    text = held["date"]
    return date.fromisoformat(text) if len(text) == 10 else datetime.fromisoformat(text)


def same_value(value: Object) -> str:
    """Return a text that is the same for objects that mean the same, whatever their case."""
    if isinstance(value, str):
        return "text " + same_text(value)
    if isinstance(value, Ref):
        return "text " + same_text(value.subject)
    if isinstance(value, bool):
        return f"bool {value}"
    if isinstance(value, (int, float)):
        return f"number {float(value)!r}" if abs(value) < 2**53 else f"number {value!r}"
    return "date " + str(dumped(value)["date"])
