"""The dates that sentences name: how they are written, and which day, month or year they mean."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta

from memoranda_backend.text.terms import MONTHS

MONTHS_ABROAD = {
    "de": "januar|februar|märz|april|mai|juni|juli|august|september|oktober|november|dezember",
    "es": "enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre",
    "fr": "janvier|février|mars|avril|mai|juin|juillet|août|septembre|octobre|novembre|décembre",
}
"""The months of languages other than English, in order, as a part of a pattern."""

_MONTH = "|".join(month.capitalize() for month in MONTHS) + "|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec"
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_COUNT = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_NUMBERS = {word: number for number, word in enumerate(_COUNT)} | {"a": 1, "an": 1, "fifteen": 15, "twenty": 20}
_UNITS = {"day": 1, "week": 7, "month": 30, "year": 365}

_NUMBER_OF_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
DAY = (
    rf"(?:(?:(?:{_MONTH})\.? {_NUMBER_OF_DAY}|{_NUMBER_OF_DAY}(?: of)? (?:{_MONTH}))(?:,? \d{{4}})?"
    r"|\d{4}-\d{2}-\d{2})"
)
"""A day of a month, with or without its year."""

SAID_DATE = (
    rf"(?:(?:on|since) )?(?:{DAY})"
    rf"|(?:in|since|back in|in early|in late) (?:(?:{_MONTH}),?(?: (?:of )?\d{{4}})?|(?:19|20)\d{{2}})"
    r"|(?:since )?(?:last|this) (?:week|month|year|weekend|spring|summer|autumn|fall|winter)"
    rf"|(?:since )?(?:last|on|this) (?:{'|'.join(day.capitalize() for day in _WEEKDAYS)})"
    rf"|(?:since )?last (?:{_MONTH})"
    r"|(?:since )?(?:yesterday|today|this morning|last night)"
    rf"|(?:about |over )?(?:\d{{1,2}}|{'|'.join(_NUMBERS)}|a couple of|a few) (?:days?|weeks?|months?|years?) ago"
)
"""What can be read by :func:`said_date`; months and weekdays need their capital."""

_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_DAY_PARTS = re.compile(rf"(?P<month>{_MONTH})\.?|(?P<year>\d{{4}})|(?P<day>\d{{1,2}})")


def said_date(words: str, spoken: str) -> str | None:
    """Return the coarse date that the words mean at the moment they were spoken: a day, a month or a year.

    ``spoken`` is ISO-8601 text. A month or day without a year is the last one that had begun by then. Returns None for
    words that mean no date, and for dates after the moment.
    """
    now = datetime.fromisoformat(spoken).date()
    found = _read(words, now)
    return None if found is None or found > now.isoformat()[: len(found)] else found


def day_of_year(words: str) -> str | None:
    """Return a day that comes each year as "MM-DD", from words such as "March 5th" or "the 5th of March"."""
    parts = _parts(words.title())
    last = "".join(words.lower().split()[-1:])
    for names in MONTHS_ABROAD.values():
        months = names.split("|")
        if last in months:
            parts["month"] = months.index(last) + 1
    if "month" not in parts or "day" not in parts:
        return None
    try:
        return f"{date(2024, parts['month'], parts['day']):%m-%d}"
    except ValueError:
        return None


def _read(words: str, now: date) -> str | None:
    text = words.lower().removeprefix("since ").removeprefix("about ").removeprefix("over ")
    if text in ("today", "this morning"):
        return now.isoformat()
    if text in ("yesterday", "last night"):
        return (now - timedelta(days=1)).isoformat()
    if text.endswith(" ago"):
        return _ago(text, now)
    which, _, unit = text.rpartition(" ")
    if which in ("last", "this", "on") and not unit.isdigit():
        relative = _relative(which, unit, now)
        if relative is not None:
            return relative
    return _absolute(words, now)


def _ago(text: str, now: date) -> str | None:
    count, _, unit = text.removesuffix(" ago").rpartition(" ")
    number = int(count) if count.isdigit() else _NUMBERS.get(count)
    if number is None:  # "A few" is no number.
        return None
    unit = unit.removesuffix("s")
    if unit == "year":
        return str(now.year - number)
    if unit == "month":
        return _month_text(now.year * 12 + now.month - 1 - number)
    return (now - timedelta(days=number * _UNITS[unit])).isoformat()


def _relative(which: str, unit: str, now: date) -> str | None:
    back = 1 if which == "last" else 0
    if unit == "year":
        return str(now.year - back)
    if unit == "month":
        return _month_text(now.year * 12 + now.month - 1 - back)
    if unit == "week":
        return (now - timedelta(days=now.weekday() + 7 * back)).isoformat()
    if unit == "weekend":
        return (now - timedelta(days=(now.weekday() - 5) % 7)).isoformat()
    if unit in _SEASONS:
        start = date(now.year, _SEASONS[unit], 1)
        return f"{(start if start <= now else start.replace(year=now.year - 1)):%Y-%m}"
    if unit in _WEEKDAYS:
        return (now - timedelta(days=(now.weekday() - _WEEKDAYS.index(unit)) % 7 or 7 * back)).isoformat()
    return None


def _absolute(words: str, now: date) -> str | None:
    if re.search(r"\d{4}-\d{2}-\d{2}", words):
        found = words[-10:]
        return found if _is_day(found) else None
    parts = _parts(words)
    if "month" not in parts:
        return str(parts["year"]) if "year" in parts and "day" not in parts else None
    year = parts.get("year", now.year)
    day = f"-{parts['day']:02d}" if "day" in parts else ""
    found = f"{year:04d}-{parts['month']:02d}{day}"
    if "year" not in parts and found > now.isoformat()[: len(found)]:
        found = f"{year - 1:04d}{found[4:]}"
    return found if not day or _is_day(found) else None


def _parts(words: str) -> dict[str, int]:
    parts: dict[str, int] = {}
    for found in _DAY_PARTS.finditer(words):
        kind = str(found.lastgroup)
        value = found.group(kind)
        parts[kind] = _month_number(value) if kind == "month" else int(value)
    return parts


def _month_number(name: str) -> int:
    return next(number for number, month in enumerate(MONTHS, start=1) if month.startswith(name.lower()[:3]))


def _month_text(months: int) -> str:
    return f"{months // 12:04d}-{months % 12 + 1:02d}"


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
