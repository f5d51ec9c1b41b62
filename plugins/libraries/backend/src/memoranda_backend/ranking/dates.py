"""Dates in a query, and the terms by which an item's own date is found."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from memoranda_backend.text.stemming import stem
from memoranda_backend.text.terms import MONTHS, fold_words, spelled_dates

_MONTH_NUMBERS = {stem(month): number for number, month in enumerate(MONTHS, start=1)}
_AMBIGUOUS = {stem("may"): re.compile(r"\bMAY\b|\bMay\b"), stem("march"): re.compile(r"\bMARCH\b|\bMarch\b")}
"""Months that are also common words: only a capital says that the month is meant."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ZONE = len("+00:00")
_EXACT = len("2023-05-08T13:56:00.000000") + _ZONE
UNDATED = -(1 << 62)
"""Stands for the time of what has none: long before all others."""

_YEAR = re.compile(r"(?:19|20)\d{2}")
_DAYS = frozenset(str(day) for day in range(1, 32))


def date_terms(iso_date: str) -> tuple[str, ...]:
    """Return the terms of a date given as ISO-8601 text: day, month and year; none when it is not a date."""
    return _day_terms(iso_date[:10])


@lru_cache(maxsize=4096)
def _day_terms(text: str) -> tuple[str, ...]:
    # Many items have their day in common.
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return ()
    return str(day.day), stem(MONTHS[day.month - 1]), str(day.year)


def microseconds(dates: Sequence[str]) -> NDArray[np.int64]:
    """Return the microseconds since 1970 of dates, given as ISO-8601 text; :data:`UNDATED` for what is no date."""
    if set(map(len, dates)) == {_EXACT}:  # As items have them.
        with suppress(ValueError):
            return np.array([text[:-_ZONE] for text in dates], "datetime64[us]").astype(np.int64)
    return np.array([_moment(text) for text in dates], np.int64)


def _moment(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return UNDATED
    return (moment.replace(tzinfo=moment.tzinfo or UTC) - _EPOCH) // timedelta(microseconds=1)


def query_date_terms(query: str) -> frozenset[str]:
    """Return the terms of a query that speak of a date: months, years, and days that stand beside a month.

    Other numbers are left out, so that "2 cats" does not ask for the second of a month.
    """
    words = [stem(word) for word in fold_words(spelled_dates(query))]
    found = {word for word in words if _YEAR.fullmatch(word)}
    for position, word in enumerate(words):
        if _is_month(words, position, query):
            found.add(word)
            found.update(_day_beside(words, position))
    return frozenset(found)


def query_dates(query: str) -> tuple[str, ...]:
    """Return the days (``2023-05-08``) or months (``2023-05``) that the query names with their year.

    A backend may take the items whose ``created_at`` begins so as candidates, besides those that share a word.
    """
    words = [stem(word) for word in fold_words(spelled_dates(query))]
    found = []
    for position, word in enumerate(words):
        year = next((near for near in words[position + 1 : position + 3] if _YEAR.fullmatch(near)), None)
        if year is not None and _is_month(words, position, query):
            day = _day_beside(words, position)
            found.append(f"{year}-{_MONTH_NUMBERS[word]:02d}" + "".join(f"-{int(number):02d}" for number in day))
    return tuple(dict.fromkeys(found))


def _is_month(words: list[str], position: int, query: str) -> bool:
    word = words[position]
    if word not in _MONTH_NUMBERS:
        return False
    capital = _AMBIGUOUS.get(word)
    beside = words[max(0, position - 1) : position] + words[position + 1 : position + 2]
    return capital is None or bool(capital.search(query)) or any(near.isdecimal() for near in beside)


def _day_beside(words: list[str], position: int) -> list[str]:
    """Return the day of the month at ``position``, if one is named: "7 May", "7th of May", "May 7"."""
    before = words[max(0, position - 2) : position]
    if len(before) == 2 and before[1] != "of":
        before = before[1:]
    return [near for near in [*before, *words[position + 1 : position + 2]] if near in _DAYS][:1]
