"""Store URLs: reading their options, and showing them without their secrets.

**An option is given once**: in the URL's query or as a keyword. One that is given both ways is an InputError, unless
both say the same. Drivers disagree on which of two wins (redis-py takes the URL's, psycopg the keyword's), so that
whichever won here would silently be the wrong one for somebody. :func:`together` is the rule; backends get it from
:func:`take_options`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from memoranda.errors import InputError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_HOST = r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?"
# A password may hold any sign, written as it is by mistake: the last @ ends it. What does not match is not shown.
_SHOWN = re.compile(
    rf"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?:(?P<secret>.*)@)?(?P<place>(?:{_HOST}(?:,{_HOST})*)?(?:/[^?#@]*)?)"
    rf"(?:\?(?P<query>[^#@]*))?(?:#[^@]*)?",
    re.DOTALL,
)
_PLAIN_USER = re.compile(r"[A-Za-z0-9._+-]*")
_PLAIN_OPTION = re.compile(r"([a-z][a-z0-9_]*)=([A-Za-z0-9_.,:/+~-]*)")
_PLAIN_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")
_SECRET_NAME = re.compile(r"pass|pwd|secret|token|key|auth|credential")
_PORT = re.compile(r"0*[1-9][0-9]{0,4}")

_EXPECTED: dict[Any, str] = {int: "a whole number is due", float: "a number is due"}


def scheme_of(url: str) -> str:
    """Return the scheme in lower case. Raises InputError, which repeats nothing of the text, when there is none."""
    if not isinstance(url, str):
        raise InputError(f"A store URL is text, not {type(url).__name__}.", field="url")
    found = _SCHEME.match(url)
    if found is None:
        raise no_store_url()
    return found[1].lower()


def no_store_url() -> InputError:
    """Return the error for text that is no store URL. It repeats nothing of it: nobody knows what is a password."""
    return InputError("This is no store URL; one looks like 'sqlite:///agent.db' or 'memory://'.", field="url")


def redacted(url: str) -> str:
    """Return the URL with its passwords replaced; use it in every message, log and repr.

    Of a URL that cannot be taken apart, only the scheme is shown: any part of the rest may belong to a password.
    """
    found = _SHOWN.fullmatch(url)
    if found is None:
        scheme = _SCHEME.match(url)
        return f"{scheme[0]}//…" if scheme is not None and url.startswith("//", scheme.end()) else "…"
    secret, query = found["secret"], found["query"]
    user = "" if secret is None else f"{_shown_user(secret)}***@"
    options = "" if query is None else "?" + "&".join(map(_shown_option, query.split("&")))
    return f"{found['scheme']}://{user}{found['place']}{options}"


def _shown_user(secret: str) -> str:
    user, colon, _ = secret.partition(":")
    return f"{user}:" if colon and _PLAIN_USER.fullmatch(user) else ""


def _shown_option(pair: str) -> str:
    found = _PLAIN_OPTION.fullmatch(pair)
    if found is None:
        return "***"
    return f"{found[1]}=***" if _SECRET_NAME.search(found[1]) else pair


def check_place(url: str, *, field: str, needs_host: bool = False) -> None:
    """Raise InputError unless the URL's hosts and ports can be some. It repeats nothing of the URL.

    Several hosts stand with commas between them. A socket's folder, percent-encoded, may stand for a host. An ``@``
    behind the host is refused: it ends a password that holds a ``/``, ``?`` or ``#`` as it is.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        # The text of this error quotes the host, and with it what may be a password.
        raise _unreadable(field) from None
    if any("@" in part for part in (parts.path, parts.query, parts.fragment)):
        raise _unreadable(field)
    hosts = parts.netloc.rpartition("@")[2]
    if not hosts and not needs_host:
        return
    for place in hosts.split(","):
        host, port = _divided(place)
        if port is not None and not is_port(port):
            raise InputError("The port in the store URL must be a number from 1 to 65535.", field=field)
        if not host and needs_host:
            raise InputError("The store URL names no host, and this kind of store needs one.", field=field)
        if host and not _is_host(host):
            raise InputError("The host in the store URL is no name or address of one.", field=field)


def is_port(text: str) -> bool:
    """Whether the text is the number of a port."""
    return bool(_PORT.fullmatch(text)) and int(text) <= 65535


def _unreadable(field: str) -> InputError:
    return InputError(
        "The store URL cannot be read. It looks like scheme://user:password@host:port/database; signs such as @ : / ? "
        "# in the user or the password are written with % and two hexadecimal digits.",
        field=field,
    )


def _divided(place: str) -> tuple[str, str | None]:
    """Return host and port; an empty port is none."""
    if place.startswith("["):
        host, bracket, rest = place.partition("]")
        return host + bracket + rest.partition(":")[0], rest.partition(":")[2] or None
    host, _, port = place.partition(":")
    return host, port or None


def _is_host(host: str) -> bool:
    if host.startswith("["):
        try:
            ip_address(host.removeprefix("[").removesuffix("]").partition("%")[0])
        except ValueError:
            return False
        return host.endswith("]")
    name = unquote(host)
    if name.startswith("/"):
        return "\0" not in name
    if re.search(r"[\s\x00-\x20\x7f\[\]<>\"\\^`{|}%@]", name):
        return False
    try:
        return bool(name.rstrip(".").encode("idna")) or name == "."
    except UnicodeError:  # Such as a label of more than 63 bytes, or none between two dots.
        return False


def repeatable(name: str, url: str) -> bool:
    """Whether an option's name may be repeated in an error: what cannot be a piece of a password."""
    return bool(_PLAIN_NAME.fullmatch(name)) and "@" not in url.partition("?")[2]


def take_options(
    url: str, known: Mapping[str, Callable[[str], Any]], given: Mapping[str, Any] | None = None
) -> tuple[str, dict[str, Any]]:
    """Return the URL without its query, and the options of the query and the keywords together.

    Those of the query are each read by its function in ``known``. Those in ``given`` came as keywords; None stands for
    one that did not come, and is left out. Raises InputError for an option of the query that is not known, is there
    twice or cannot be read, and for one that the query and a keyword give different values.
    """
    rest, options = take_known_options(url, known, given)
    unknown = [name for name, _ in parse_qsl(urlsplit(rest).query, keep_blank_values=True)]
    if unknown:
        raise unknown_option(unknown[0], url, f"Known: {', '.join(sorted(known)) or 'none'}.")
    return rest, options


def unknown_option(name: str, url: str, remedy: str) -> InputError:
    """Return the error for an option that a URL must not have; ``remedy`` says which there are."""
    if repeatable(name, url):
        return InputError(f"The store URL has an unknown option {name!r}. {remedy}", field=name)
    return InputError(f"The store URL has an option whose name is none. {remedy}", field="url")


def take_known_options(
    url: str, known: Mapping[str, Callable[[str], Any]], given: Mapping[str, Any] | None = None
) -> tuple[str, dict[str, Any]]:
    """Like :func:`take_options`, but leave options that are not known in the URL, for a driver that reads them."""
    rest, options = _query_options(url, known)
    return rest, together(options, given or {})


def together(read: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were read from a URL and those given as keywords; a keyword of None is not given.

    Raises InputError for one that has one value in the URL and another as a keyword. It repeats neither of them.
    """
    options = dict(read)
    for name, value in given.items():
        if value is None:
            continue
        if name in options and not _same(options[name], value):
            raise InputError(
                f"The option {name!r} has one value in the store URL and another as a keyword; give it once.",
                field=name,
            )
        options[name] = value
    return options


def _same(read: Any, given: Any) -> bool:
    """Whether a keyword says what the URL says. An object is never what a text names, whatever it says of itself."""
    return isinstance(given, (str, int, float)) and bool(read == given)


def _query_options(url: str, known: Mapping[str, Callable[[str], Any]]) -> tuple[str, dict[str, Any]]:
    """Return the URL without the known options of its query, and these, each read by its function."""
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
        except ValueError:
            # The text of this error quotes the value.
            due = _EXPECTED.get(known[name], "another value is due")
            raise InputError(f"The store URL's option {name!r} cannot be read: {due}.", field=name) from None
    if not options:
        return url if parts.query else url.removesuffix("?"), options
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
