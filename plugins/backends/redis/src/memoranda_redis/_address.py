"""Redis URLs: parsing them, and displaying them without secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from redis.asyncio.connection import Connection, parse_url

from memoranda.errors import InputError
from memoranda.urls import unknown_option

DEFAULT_URL = "redis://localhost:6379/0"
SCHEMES = ("redis", "rediss", "redis+cluster", "rediss+cluster", "unix")

_NOT_IN_HOST = re.compile(r"[\s\x00-\x20\x7f<>\"\\^`{|}%@,]")
_REFUSED_NAME = re.compile(r"argument '(\w+)'")
_POOL_OPTIONS = ("connection_class", "max_connections", "timeout", "decode_responses")


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed Redis URL. ``display`` names the server without secrets."""

    url: str = field(repr=False)
    cluster: bool
    display: str
    options: dict[str, Any] = field(repr=False)

    @classmethod
    def of(cls, url: str) -> Address:
        """Parse a URL. Raises InputError, which never quotes a password."""
        if not isinstance(url, str):
            raise InputError(f"redis_url must be text, not {type(url).__name__}.", field="redis_url")
        scheme, _, rest = url.partition("://")
        scheme = scheme.lower()
        if scheme not in SCHEMES or not rest:
            raise InputError(
                f"A Redis URL looks like {DEFAULT_URL!r} and starts with one of {', '.join(SCHEMES)}.",
                field="redis_url",
            )
        plain = f"{scheme.removesuffix('+cluster')}://{rest}"
        try:
            _check_place(plain, scheme)
            options = dict(parse_url(plain))
            display = _display(scheme, options)
            _check_options(options)
            _check_database(plain, scheme, options)
        except TypeError as error:
            raise _unknown_option(str(error), url) from None
        except Exception:  # noqa: BLE001 - the driver raises many kinds for a value that it cannot take
            # The driver's message may quote parts of the URL, and so a password.
            raise InputError(
                "The Redis URL cannot be read: its host, port, database or one of its options is wrong, or its "
                "password holds a character that must be written in percent form.",
                field="redis_url",
            ) from None
        return cls(plain, scheme.endswith("+cluster"), display, options)

    def connection_options(self) -> dict[str, Any]:
        """Return the options of a single connection, as the driver calls them."""
        return {name: value for name, value in self.options.items() if name not in _POOL_OPTIONS}


def _display(scheme: str, options: dict[str, Any]) -> str:
    if "path" in options:
        return f"{scheme}://{options['path']}"
    user = ""
    if options.get("password"):
        user = f"{options['username']}:***@" if options.get("username") else "***@"
    elif options.get("username"):
        user = "***@"  # A name alone is often a password without its colon.
    return f"{scheme}://{user}{options.get('host', 'localhost')}:{options.get('port', 6379)}/{options.get('db', 0)}"


def _check_options(options: dict[str, Any]) -> None:
    """Build a connection without opening it: the driver refuses unknown options."""
    kind = options.get("connection_class", Connection)
    kind(**{name: value for name, value in options.items() if name not in _POOL_OPTIONS})


def _unknown_option(refusal: str, url: str) -> InputError:
    """Return the error for an option that the driver refused, naming the option and no value."""
    found = _REFUSED_NAME.search(refusal)
    return unknown_option(
        found[1] if found else "",
        url,
        "Known are those of redis-py's connections, such as ssl_ca_certs, ssl_certfile, ssl_keyfile or client_name, "
        "and max_connections; the store also knows namespace and timeout.",
    )


def _check_place(plain: str, scheme: str) -> None:
    """Refuse a place that the driver would take for another one."""
    parts = urlsplit(plain)
    if any("@" in part for part in (parts.path, parts.query, parts.fragment)):
        raise ValueError("a password with an unquoted sign")
    if scheme == "unix":
        return
    if parts.hostname is None and scheme.endswith("+cluster"):
        raise ValueError("no host")
    (parts.hostname or "localhost").encode("idna")
    if _NOT_IN_HOST.search(unquote(parts.hostname or "")) or parts.port == 0:
        raise ValueError("no host or port of that name")


def _check_database(plain: str, scheme: str, options: dict[str, Any]) -> None:
    """Refuse a path that is not a database number; the driver would silently use database 0."""
    path = unquote(urlsplit(plain).path).strip("/")
    if scheme == "unix":
        return
    if (path and not path.isdecimal()) or (scheme.endswith("+cluster") and options.get("db", 0) != 0):
        raise ValueError("no database of that name")
    if not 0 < int(options.get("port", 6379)) < 65536:
        raise ValueError("no port of that number")
