"""Times as numbers: microseconds since 1970, in the order that their text has."""

from __future__ import annotations

from calendar import monthrange
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

from memoranda.items import utc_text

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DAY = 86_400_000_000

OLDEST = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // _MICROSECOND - 1
"""What stands for a time that cannot be read: it comes before all others."""

LATEST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


def microseconds(time: str) -> int:
    """Return the number of a time in the form that items carry; another form is brought to it first."""
    if len(time) != 32 or not time.endswith("+00:00"):
        time = utc_text(time)  # Raises ValueError for what is none.
    # Items of a conversation are made within a few seconds: what they have in common is read once.
    return _second(time[:19]) + int(time[20:26])


@lru_cache(maxsize=1024)
def _second(text: str) -> int:
    return (datetime.fromisoformat(f"{text}+00:00") - _EPOCH) // _MICROSECOND


def text_of(number: int) -> str:
    """Return the time of a number in the form that items carry; the nearest there is for what stands for none."""
    moment = _EPOCH + timedelta(microseconds=max(number, OLDEST + 1))
    return moment.isoformat(timespec="microseconds")


def span(day: str) -> tuple[int, int]:
    """Return the first number of a day (``2023-05-08``) or a month (``2023-05``), and the first behind it.

    One that is in no calendar has none.
    """
    try:
        first = date.fromisoformat(day if len(day) > len("2023-05") else f"{day}-01")
    except ValueError:
        return 0, 0
    days = 1 if len(day) > len("2023-05") else monthrange(first.year, first.month)[1]
    start = (first.toordinal() - _EPOCH.toordinal()) * _DAY
    return start, start + days * _DAY
