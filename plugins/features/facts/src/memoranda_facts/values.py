"""The objects of facts, texts, numbers, dates and references, as JSON and back; and what a coarse date may mean."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
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


Moment = str | date | datetime
"""A moment as callers give it: a datetime, a date, or a text, which may be coarse."""

EVER = ".."
"""As ``valid_from``: it has always been so, as far as is known."""

BEFORE_ALL = ""
"""The start of an interval without one; it sorts before every moment."""

AFTER_ALL = "~"
"""The end of an interval without one; it sorts behind every moment."""

_COARSE = re.compile(r"(\d{4})(?:-(\d\d))?(?:-(\d\d))?")
_TICK = timedelta(microseconds=1)


def _bounds(given: Moment, field: str) -> tuple[str, str]:
    """Return the first moment that a date may mean and the first one after it, in UTC."""
    if isinstance(given, date) and not isinstance(given, datetime):
        given = given.isoformat()
    if isinstance(given, str) and (found := _COARSE.fullmatch(given.strip())):
        year, month, day = (int(part) if part else None for part in found.groups())
        try:
            first = datetime(year or 0, month or 1, day or 1, tzinfo=UTC)
            if day is not None:
                after = first + timedelta(days=1)
            elif month is not None:
                after = (first + timedelta(days=32)).replace(day=1)
            else:
                after = first.replace(year=first.year + 1)
        except (ValueError, OverflowError) as error:
            raise InputError(f"{field} is not a date of the years 1 to 9998.", field=field) from error
        return utc_text(first), utc_text(after)
    try:
        moment = utc_text(given)
    except ValueError as error:
        raise InputError(
            f"{field} is a datetime, a date, or text such as 2026, 2026-03, 2026-03-05 or an ISO-8601 time.",
            field=field,
        ) from error
    return moment, moment


def start_of(given: Moment) -> str:
    """Return the first moment that a date may mean; nothing sorts before :data:`EVER`."""
    return BEFORE_ALL if given == EVER else _bounds(given, "valid_from")[0]


def end_of(given: Moment | None) -> str:
    """Return the moment at which a date is over; None never is."""
    return AFTER_ALL if given is None else _bounds(given, "valid_to")[1]


def last_moment_of(given: Moment, field: str = "moment") -> str:
    """Return the last moment that a date may mean, which is where a question about it looks."""
    first, after = _bounds(given, field)
    return first if first == after else utc_text(datetime.fromisoformat(after) - _TICK)


def as_given(given: Moment | None, field: str) -> str | None:
    """Return a date as text, as coarse as it was given. Raises InputError for what is no date."""
    if given is None or given == EVER:
        return None if given is None else EVER
    first, after = _bounds(given, field)
    return first if first == after else str(given).strip()


def next_tick(moment: str) -> str:
    """Return the smallest moment after this one."""
    return utc_text(datetime.fromisoformat(moment) + _TICK)


def in_short(given: str) -> str:
    """Return a date for people: as coarse as it was given, and of a full time the day."""
    return given[:10]
