"""Store URLs: reading their options, and showing them without their secrets.

**An option is given once**: in the URL's query or as a keyword. Giving it both ways is an InputError, unless both say
the same: drivers disagree on which of two wins (redis-py takes the URL's, psycopg the keyword's). :func:`together` is
the rule; backends get it from :func:`take_options`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from memoranda.errors import InputError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_HOST = r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?"
# A password may hold any sign, unquoted by mistake: the last @ ends it. What does not match is not shown.
_SHOWN = re.compile(
    rf"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?:(?P<secret>.*)@)?(?P<place>(?:{_HOST}(?:,{_HOST})*)?(?:/[^?#@]*)?)"
    rf"(?:\?(?P<query>[^#@]*))?(?:#[^@]*)?",
    re.DOTALL,
)
_PLAIN_USER = re.compile(r"[A-Za-z0-9._+-]*")
_PLAIN_OPTION = re.compile(r"([a-z][a-z0-9_]*)=([A-Za-z0-9_.,:/+~-]*)")
_PLAIN_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")
_SECRET_NAME = re.compile(r"pass|pwd|secret|token|key|auth|credential")

_EXPECTED: dict[Any, str] = {int: "a whole number is due", float: "a number is due"}


def scheme_of(url: str) -> str:
    """Return the scheme in lower case. Raises InputError, quoting nothing of the text, if there is none."""
    if not isinstance(url, str):
        raise InputError(f"A store URL is text, not {type(url).__name__}.", field="url")
    found = _SCHEME.match(url)
    if found is None:
        raise no_store_url()
    return found[1].lower()


def no_store_url() -> InputError:
    """Return the error for text that is not a store URL. It quotes nothing: any part may be a password."""
    return InputError("This is not a store URL. Write it like 'sqlite:///agent.db' or 'memory://'.", field="url")


def redacted(url: str) -> str:
    """Return the URL with its passwords replaced; use it in every message, log and repr.

    If the URL cannot be taken apart, only the scheme is shown: any part of the rest may belong to a password.
    """
    found = _SHOWN.fullmatch(url)
    if found is None:
        scheme = _SCHEME.match(url)
        return f"{scheme[0]}//…" if scheme is not None and url.startswith("//", scheme.end()) else "…"
    user, colon, _ = (found["secret"] or "").partition(":")
    shown_user = f"{user}:" if colon and _PLAIN_USER.fullmatch(user) else ""
    secret = "" if found["secret"] is None else f"{shown_user}***@"
    options = "" if found["query"] is None else "?" + "&".join(map(_shown_option, found["query"].split("&")))
    return f"{found['scheme']}://{secret}{found['place']}{options}"


def _shown_option(pair: str) -> str:
    found = _PLAIN_OPTION.fullmatch(pair)
    if found is None:
        return "***"
    return f"{found[1]}=***" if _SECRET_NAME.search(found[1]) else pair


def take_options(
    url: str, known: Mapping[str, Callable[[str], Any]], given: Mapping[str, Any] | None = None
) -> tuple[str, dict[str, Any]]:
    """Return the URL without its query, and the options of the query and the keywords together.

    Those of the query are each read by its function in ``known``. Those in ``given`` came as keywords; one that is None
    was not given, and is left out. Raises InputError for an option of the query that is not known, is there twice or
    cannot be read, and for one that the query and a keyword give different values.
    """
    rest, options = take_known_options(url, known, given)
    unknown = [name for name, _ in parse_qsl(urlsplit(rest).query, keep_blank_values=True)]
    if unknown:
        raise unknown_option(unknown[0], url, f"Known: {', '.join(sorted(known)) or 'none'}.")
    return rest, options


def unknown_option(name: str, url: str, remedy: str) -> InputError:
    """Return the error for an unknown option of a URL; ``remedy`` lists the known ones.

    It repeats the option's name only if that cannot be a piece of a password.
    """
    if _PLAIN_NAME.fullmatch(name) and "@" not in url.partition("?")[2]:
        return InputError(f"The store URL has an unknown option {name!r}. {remedy}", field=name)
    return InputError(f"The store URL has an option without a valid name. {remedy}", field="url")


def take_known_options(
    url: str, known: Mapping[str, Callable[[str], Any]], given: Mapping[str, Any] | None = None
) -> tuple[str, dict[str, Any]]:
    """Like :func:`take_options`, but leave options that are not known in the URL, for a driver that reads them."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise no_store_url() from None
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
        except ValueError:  # Its text quotes the value.
            due = _EXPECTED.get(known[name], "another value is due")
            raise InputError(f"The store URL's option {name!r} cannot be read: {due}.", field=name) from None
    if options:
        # urlunsplit drops an empty authority ("sqlite:///x" would become "sqlite:/x"), so the text is cut instead.
        query = f"?{urlencode(left)}" if left else ""
        url = url.partition("?")[0] + query + (f"#{parts.fragment}" if parts.fragment else "")
    elif not parts.query:
        url = url.removesuffix("?")
    return url, together(options, given or {})


def together(read: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the options of a URL with keywords; a keyword of None counts as absent.

    Raises InputError for one that has one value in the URL and another as a keyword. It repeats neither of them.
    """
    options = dict(read)
    for name, value in given.items():
        if value is None:
            continue
        # An object is never equal to a text that names it, whatever its class says.
        if name in options and not (isinstance(value, (str, int, float)) and options[name] == value):
            raise InputError(
                f"The option {name!r} has one value in the store URL and another as a keyword; give it once.",
                field=name,
            )
        options[name] = value
    return options


def yes_or_no(text: str) -> bool:
    """Read a boolean option: 1, true, yes, on, or their opposites."""
    lowered = text.lower()
    if lowered in ("1", "true", "yes", "on"):
        return True
    if lowered in ("0", "false", "no", "off"):
        return False
    raise ValueError("it is neither yes nor no")
