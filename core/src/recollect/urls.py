"""Store URLs: reading their options, and showing them without their secrets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from recollect.errors import InputError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
# A password may hold any sign, written as it is by mistake: the last @ ends it.
_SECRET = re.compile(r"(?<=://)([^/?#@\s:]*):(\S*)@")
_SECRET_OPTION = re.compile(r"(?i)([?&](?:[a-z_]*(?:password|secret|token|api_?key))=)[^&#\s]*")


def scheme_of(url: str) -> str:
    """Return the scheme in lower case. Raises InputError when there is none."""
    if not isinstance(url, str):
        raise InputError(f"A store URL is text, not {type(url).__name__}.", field="url")
    found = _SCHEME.match(url)
    if found is None:
        raise InputError(
            f"{redacted(url)!r} is no store URL; one looks like 'sqlite:///agent.db' or 'memory://'.",
            field="url",
        )
    return found[1].lower()


def redacted(url: str) -> str:
    """Return the URL with its passwords replaced; use it in every message, log and repr."""
    return _SECRET_OPTION.sub(r"\1***", _SECRET.sub(r"\1:***@", url))


def take_options(url: str, known: Mapping[str, Callable[[str], Any]]) -> tuple[str, dict[str, Any]]:
    """Return the URL without its query, and the query's options, each read by its function in ``known``.

    Raises InputError for an option that is not known, given twice, or unreadable.
    """
    rest, options = take_known_options(url, known)
    unknown = [name for name, _ in parse_qsl(urlsplit(rest).query, keep_blank_values=True)]
    if unknown:
        listed = ", ".join(sorted(known)) or "none"
        raise InputError(f"The store URL has an unknown option {unknown[0]!r}. Known: {listed}.", field=unknown[0])
    return rest, options


def take_known_options(url: str, known: Mapping[str, Callable[[str], Any]]) -> tuple[str, dict[str, Any]]:
    """Like :func:`take_options`, but leave options that are not known in the URL, for a driver that reads them."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InputError(f"{redacted(url)!r} is no store URL: {error}.", field="url") from None
    options: dict[str, Any] = {}
    left = []
    for name, text in parse_qsl(parts.query, keep_blank_values=True):
        if name not in known:
            left.append((name, text))
            continue
        if name in options:
            raise InputError(f"The store URL gives the option {name!r} twice.", field=name)
        try:
            options[name] = known[name](text)
        except ValueError as error:
            raise InputError(f"The store URL's option {name!r} cannot be read: {error}.", field=name) from error
    if not options and not parts.query:
        return url, options
    # urlunsplit drops an empty authority ("sqlite:///x" would become "sqlite:/x"), so the text is cut instead.
    rest = (
        url.partition("?")[0]
        + (f"?{urlencode(left)}" if left else "")
        + (f"#{parts.fragment}" if parts.fragment else "")
    )
    return rest, options


def yes_or_no(text: str) -> bool:
    """Read a boolean option: 1, true, yes, on, or their opposites."""
    lowered = text.lower()
    if lowered in ("1", "true", "yes", "on"):
        return True
    if lowered in ("0", "false", "no", "off"):
        return False
    raise ValueError("it is neither yes nor no")
