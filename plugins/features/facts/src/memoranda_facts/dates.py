"""Coarse dates: "2026", "2026-03", "2026-03-05" and full times, as the interval that they may mean."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

from memoranda.errors import InputError
from memoranda.items import utc_text

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
            raise InputError(f"{field} is no date of the years 1 to 9998.", field=field) from error
        return utc_text(first), utc_text(after)
    try:
        moment = utc_text(given)
    except ValueError as error:
        raise InputError(
            f"{field} is a datetime, a date, or text such as 2026, 2026-03, 2026-03-05 or an ISO-8601 time.",
            field=field,
        ) from error
    return moment, moment


def start_of(given: Moment, field: str = "valid_from") -> str:
    """Return the first moment that a date may mean; nothing sorts before :data:`EVER`."""
    return BEFORE_ALL if given == EVER else _bounds(given, field)[0]


def end_of(given: Moment | None, field: str = "valid_to") -> str:
    """Return the moment at which a date is over; None never is."""
    return AFTER_ALL if given is None else _bounds(given, field)[1]


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
