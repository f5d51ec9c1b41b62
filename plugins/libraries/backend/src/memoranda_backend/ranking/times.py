"""The times that a question names, and the places that what was said then has in a ranking.

A question about a time names it by a date ("on 21.01.2024", "el 3 de octubre"), a month, a season or a year, or from
where it is asked ("two weeks ago", "last spring"). What happened then was said then, or a few days later.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cache
from importlib.resources import files

from memoranda.store import RankedItem
from memoranda_backend.text.terms import fold_words, query_language

TOLD_WITHIN_DAYS = 8
"""Within how many days what happened is told."""

MERGED = 200
"""Of how many of the best results those of the named time are taken."""

_YEAR = re.compile(r"(?:19|20)\d\d")
_FIGURE = re.compile(r"\d")
_DAY = re.compile(r"(0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th|er|re|de|ste|e|го)?")
_BETWEEN = frozenset({"of", "the", "de", "del", "di", "do", "van", "го", "к", "in"})
"""What may stand between the parts of a date."""

_ISO = re.compile(r"(?<!\d)((?:19|20)\d\d)[-/.](\d{1,2})(?:[-/.](\d{1,2}))?(?!\d)")
_FIGURES = re.compile(r"(?<![\d.])(\d{1,2})([./-])(\d{1,2})(?:\2((?:19|20)?\d\d)|(\.))(?![.]?\d)")
_EAST_ASIAN = re.compile(r"(?:(\d{4})\s*[年년]\s*)?(\d{1,2})\s*[月월](?:\s*(\d{1,2})\s*[日号號일])?")
_EAST_ASIAN_YEAR = re.compile(r"(?<!\d)(\d{4})\s*[年년](?!\s*\d{1,2}\s*[月월])")
_EAST_ASIAN_AGO = re.compile(
    r"(\d{1,3}|[一二两三四五六七八九十])\s*(?:个|個|か|ヶ|カ)?\s*(星期|개월|[天日周週月年일주달년])\S?\s*[之以]?[前전]"
)
_EAST_ASIAN_RELATIVE = {
    "昨天": "yesterday", "昨日": "yesterday", "어제": "yesterday", "上周": "week", "上星期": "week", "先週": "week",
    "지난주": "week", "上个月": "month", "上月": "month", "先月": "month", "지난달": "month", "去年": "year",
    "작년": "year",
}  # fmt: skip
_EAST_ASIAN_UNITS = ("天日일", "周週星期주", "月달개월", "年년")
_EAST_ASIAN_NUMBERS = "一二三四五六七八九十"
_OTHER_WORDS = frozenset(
    {"may", "march", "mars", "mar", "maj", "mart", "marca", "marco", "maja", "juli", "august", "jan", "sep", "sept"}
    | {"nov", "dec", "jun", "ay", "mei", "set"}
)
"""Words for months that are also other words or names: a number must say that a month is meant, or in English a
capital, elsewhere the language."""

_OTHER_SEASONS = frozenset(["spring", "fall", "ete", "estate", "var", "host", "lata", "lato", "yaz", "kis", "lente"])
"""Words for seasons that are also other words: a year or "last" must say that a season is meant."""


@dataclass(frozen=True, slots=True)
class Named:
    """A time that is named: a day, month or year, any of which may be open, or all days from one to another."""

    year: int | None = None
    month: int | None = None
    day: int | None = None
    since: date | None = None
    until: date | None = None

    def holds(self, day: date) -> bool:
        """Return True if a day lies in this time."""
        if self.since is not None and self.until is not None:
            return self.since <= day <= self.until
        wanted = (self.year, self.month, self.day)
        return all(part in (None, own) for part, own in zip(wanted, (day.year, day.month, day.day), strict=True))

    def told(self, day: date) -> bool:
        """Return True if what happened in this time may have been told on a day: then, or some days later."""
        if (self.month, self.day, self.since) == (None, None, None):
            return self.holds(day)
        return any(self.holds(day - timedelta(days=later)) for later in range(TOLD_WITHIN_DAYS + 1))


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of a language for times."""

    months: dict[str, int]
    seasons: dict[str, int]
    units: dict[str, int]
    ago: frozenset[str]
    last: frozenset[str]
    yesterday: frozenset[str]
    today: frozenset[str]
    numbers: dict[str, int]


_UNIT_DAYS = (1, 7, 30, 365)


@cache
def _languages() -> dict[str, _Words]:
    text = (files(__package__) / "times.txt").read_text(encoding="utf-8")
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        language, _, columns = line.partition(":")
        months, seasons, units, *words, numbers = [_numbered(column) for column in columns.split("|")]
        ago, last, yesterday, today = (frozenset(each) for each in words)
        found[language] = _Words(months, seasons, units, ago, last, yesterday, today, numbers)
    return found


def _numbered(column: str) -> dict[str, int]:
    """Return the words of a column, each with its place, from 1."""
    return {
        folded: place
        for place, alternatives in enumerate(column.split(), start=1)
        for word in alternatives.split("/")
        for folded in fold_words(word)
    }


@cache
def _time_words() -> frozenset[str]:
    """Return all words, of whatever language, one of which stands where a time is named in words."""
    return frozenset(
        word
        for each in _languages().values()
        for words in (each.months, each.seasons, each.units, each.yesterday, each.today)
        for word in words
    )


def named_times(query: str, now: date) -> list[Named]:
    """Return the times that a query names, seen from a day. There are none in most queries."""
    words = fold_words(query)
    if query.isascii() and _time_words().isdisjoint(words) and not _FIGURE.search(query):
        return []
    spoken = query_language(query)
    languages = _languages()
    found = [*_in_figures(query, spoken), *_in_east_asian(query, now), *_dates(words, spoken, query)]
    for name, language in languages.items():
        found += [*_relative(words, language, now), *_seasons(words, language, now, spoken in (name, None))]
        if spoken in (name, None):
            found += _this_day(words, language, now)
    if not found:
        found = [Named(int(word)) for word in words if _YEAR.fullmatch(word)]
    return list(dict.fromkeys(found))


def _in_figures(query: str, spoken: str | None) -> Iterator[Named]:
    """Yield the dates in figures; where the order of day and month is open, both are meant."""
    for year, month, day in _ISO.findall(query):
        yield from _checked(int(year), int(month), int(day) if day else None)
    for first, mark, second, year, _ in _FIGURES.findall(_ISO.sub(" ", query)):
        if not year and spoken in ("english", None):  # Rather the number of a version.
            continue
        in_year = None if not year else int(year) + (2000 if len(year) == 2 else 0)
        yield from _checked(in_year, int(second), int(first))
        if mark != "." and spoken in ("english", None):
            yield from _checked(in_year, int(first), int(second))


def _checked(year: int | None, month: int, day: int | None) -> Iterator[Named]:
    if 1 <= month <= 12 and (day is None or 1 <= day <= 31):
        yield Named(year, month, day)


def _in_east_asian(query: str, now: date) -> Iterator[Named]:
    """Yield the times that are named in Chinese, Japanese or Korean."""
    if query.isascii():
        return
    for year, month, day in _EAST_ASIAN.findall(query):
        yield from _checked(int(year) if year else None, int(month), int(day) if day else None)
    for year in _EAST_ASIAN_YEAR.findall(query):
        yield Named(int(year))
    for number, unit in _EAST_ASIAN_AGO.findall(query):
        count = int(number) if number.isdecimal() else _EAST_ASIAN_NUMBERS.find(number.replace("两", "二")) + 1
        place = next((at for at, marks in enumerate(_EAST_ASIAN_UNITS) if unit in marks), None)
        if place is not None:
            yield _ago(count, place, now)
    for words, what in _EAST_ASIAN_RELATIVE.items():
        if words in query:
            yield _last(("yesterday", "week", "month", "year").index(what), now)


def _dates(words: Sequence[str], spoken: str | None, query: str) -> Iterator[Named]:
    """Yield the months that are named in any language, each with the day and the year beside it."""
    for at, word in enumerate(words):
        of = {language: each.months[word] for language, each in _languages().items() if word in each.months}
        if not of:
            continue
        day, year = _day_of(words, at), _year_of(words, at)
        if word in _OTHER_WORDS and day is None and year is None:
            is_capital = spoken in ("english", None) and word.capitalize() in query
            if not (is_capital and "english" in of) and (spoken == "english" or spoken not in of):
                continue
        yield Named(year, of[spoken] if spoken in of else next(iter(of.values())), day)


def _day_of(words: Sequence[str], at: int) -> int | None:
    """Return the day of the month at this place: "3 de octubre", "October 3rd"."""
    before = at - 1
    while before >= 0 and words[before] in _BETWEEN:
        before -= 1
    for near in (before, at + 1, at + 2 if at + 1 < len(words) and words[at + 1] in _BETWEEN else -1):
        if 0 <= near < len(words) and (found := _DAY.fullmatch(words[near])):
            return int(found[1])
    return None


def _year_of(words: Sequence[str], at: int) -> int | None:
    near = [word for word in words[at + 1 : at + 4] if word not in _BETWEEN][:2]
    return next((int(word) for word in near if _YEAR.fullmatch(word)), None)


def _relative(words: Sequence[str], language: _Words, now: date) -> Iterator[Named]:
    """Yield the times that are named as seen from now: "last week", "two months ago"."""
    for at, word in enumerate(words):
        unit = language.units.get(word)
        if unit is None:
            continue
        beside = [*words[max(0, at - 1) : at], *words[at + 1 : at + 2]]
        if unit > 1 and not language.last.isdisjoint(beside):
            yield _last(unit - 1, now)
            continue
        number = words[at - 1] if at else ""
        count = int(number) if number.isdecimal() and len(number) < 4 else language.numbers.get(number, 0)
        around = [*words[max(0, at - 4) : at - 1], *words[at + 1 : at + 2]]
        if count and not language.ago.isdisjoint(around):
            yield _ago(count, unit - 1, now)


def _this_day(words: Sequence[str], language: _Words, now: date) -> Iterator[Named]:
    """Yield yesterday and today. In other languages these words mean other things."""
    if not language.yesterday.isdisjoint(words):
        yield _last(0, now)
    if not language.today.isdisjoint(words):
        yield Named(since=now, until=now)


def _last(unit: int, now: date) -> Named:
    """Return yesterday, or the last week, month or year before now."""
    if unit == 0:
        return Named(since=now - timedelta(days=1), until=now - timedelta(days=1))
    if unit == 1:
        monday = now - timedelta(days=now.weekday())
        return Named(since=monday - timedelta(days=7), until=monday - timedelta(days=1))
    if unit == 2:
        end = now.replace(day=1) - timedelta(days=1)
        return Named(end.year, end.month)
    return Named(now.year - 1)


def _ago(count: int, unit: int, now: date) -> Named:
    """Return the time that lies so many days, weeks, months or years back; the longer ago, the less exactly."""
    try:
        middle = now - timedelta(days=count * _UNIT_DAYS[unit])
    except OverflowError:
        return Named(since=date.min, until=date.min)
    around = timedelta(days=(1, 4, 16, 183)[unit])
    return Named(since=max(middle, date.min + around) - around, until=middle + around)


def _seasons(words: Sequence[str], language: _Words, now: date, is_spoken: bool) -> Iterator[Named]:
    """Yield the seasons that are named: with its year, the last one, or any."""
    for at, word in enumerate(words):
        season = language.seasons.get(word)
        if season is None:
            continue
        beside = [*words[max(0, at - 2) : at], *words[at + 1 : at + 2]]
        year, is_last = _year_of(words, at), not language.last.isdisjoint(beside)
        if year is None and not is_last and (word in _OTHER_SEASONS or not is_spoken):
            continue
        first = 3 * season
        months = [(first + more - 1) % 12 + 1 for more in range(3)]
        if is_last:
            start = date(now.year, first, 1)
            while start + timedelta(days=92) > now:
                start = start.replace(year=start.year - 1)
            yield Named(since=start, until=start + timedelta(days=91))
        else:
            yield from (Named(year, month) for month in months)


def by_time(query: str, now: str) -> Callable[[Sequence[RankedItem]], list[RankedItem]] | None:
    """Return what gives every other place to results of the time that a query names; None if it names none.

    ``now`` is when it is asked, as ISO-8601 text.
    """
    times = named_times(query, date.fromisoformat(now[:10]))
    if not times:
        return None

    def then(day: str) -> bool:
        return any(time.told(date.fromisoformat(day)) for time in times)

    def shared(ranked: Sequence[RankedItem]) -> list[RankedItem]:
        head = ranked[:MERGED]
        days = {day for day in {found.item.created_at[:10] for found in head} if then(day)}
        return [*_alternating(head, [each for each in head if each.item.created_at[:10] in days]), *ranked[MERGED:]]

    return shared


def _alternating(ranked: Sequence[RankedItem], then: Sequence[RankedItem]) -> list[RankedItem]:
    """Return the results by turns: the best of all, then the best of the named time.

    What is lifted has the score of what it follows.
    """
    merged: dict[str, RankedItem] = {}
    others, timely, least = iter(ranked), iter(then), 1.0
    for turn in range(2 * len(ranked)):
        source = timely if turn % 2 else others
        found = next((each for each in source if each.item.id not in merged), None)
        if found is None:
            continue
        if found.score < least and turn % 2:
            found = replace(found, score=least, parts={**found.parts, "date": least - found.score})
        least = min(least, found.score)
        merged[found.item.id] = found
    return list(merged.values())
