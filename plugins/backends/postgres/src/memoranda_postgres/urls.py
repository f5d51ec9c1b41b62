"""The URL of a store: its options, its hosts, and connecting to the right one of several hosts.

Hosts and ports are checked before the driver sees them, whose errors may quote a password.

The driver tries several hosts one after the other, and one that accepts connections but never answers uses up the whole
timeout. Here each host has a head start over the next, and the first suitable one wins.

A primary that was replaced while it was frozen or cut off still believes to be one. Each promotion starts a new
timeline, so a store that has seen the new primary never goes back to the old one.
"""

from __future__ import annotations

import asyncio
import re
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

import asyncpg

from memoranda.errors import InputError
from memoranda.urls import take_known_options, unknown_option

_PORT = re.compile(r"0*[1-9][0-9]{0,4}")
_HOST_AND_PORT = re.compile(r"(\[[^\]]*\]?[^:]*|[^:]*):?(.*)", re.DOTALL)
_NOT_IN_HOST = re.compile(r"[\s\x00-\x20\x7f\[\]<>\"\\^`{|}%@]")


def check_place(url: str, *, field: str, needs_host: bool = False) -> None:
    """Raise InputError unless the URL's hosts and ports are well formed. It repeats nothing of the URL.

    Several hosts are separated by commas. A socket's folder, percent-encoded, may stand for a host. An ``@`` behind the
    host is refused: it ends a password that holds an unquoted ``/``, ``?`` or ``#``.
    """
    unreadable = InputError(
        "The store URL cannot be read. It looks like scheme://user:password@host:port/database; signs such as @ : / ? "
        "# in the user or the password are written with % and two hexadecimal digits.",
        field=field,
    )
    try:
        parts = urlsplit(url)
    except ValueError:  # Its text quotes the host, and with it what may be a password.
        raise unreadable from None
    if any("@" in part for part in (parts.path, parts.query, parts.fragment)):
        raise unreadable
    hosts = parts.netloc.rpartition("@")[2]
    if not hosts and not needs_host:
        return
    for place in hosts.split(","):
        divided = _HOST_AND_PORT.fullmatch(place)
        host, port = divided.groups() if divided else ("", "")
        if port and not is_port(port):
            raise InputError("The port in the store URL must be a number from 1 to 65535.", field=field)
        if not host and needs_host:
            raise InputError("The store URL names no host, and this kind of store needs one.", field=field)
        if host and not _is_host(host):
            raise InputError("The host in the store URL is not a name or an address.", field=field)


def is_port(text: str) -> bool:
    """Return True if the text is the number of a port."""
    return bool(_PORT.fullmatch(text)) and int(text) <= 65535


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
    if _NOT_IN_HOST.search(name):
        return False
    try:
        return bool(name.rstrip(".").encode("idna")) or name == "."
    except UnicodeError:  # Such as a label of more than 63 bytes, or none between two dots.
        return False


URL_OPTIONS: Mapping[str, Callable[[str], Any]] = {
    "schema": str,
    "min_size": int,
    "max_size": int,
    "statement_cache_size": int,
    "connect_timeout": float,
    "timeout": float,
    "partitions": int,
    "embeddings": str,
    "replicas": str,
    "replica_lag": float,
}
"""Our options that a URL may hold, and the parser of each."""

# asyncpg passes any other name to the server as a setting, and the server then refuses the connection.
_DRIVER_OPTIONS = {
    "application_name", "database", "dbname", "gsslib", "host", "krbsrvname", "options", "passfile",
    "password", "port", "search_path", "service", "servicefile", "ssl_max_protocol_version",
    "ssl_min_protocol_version", "sslcert", "sslcrl", "sslkey", "sslmode", "sslnegotiation", "sslpassword",
    "sslrootcert", "target_session_attrs", "user",
}  # fmt: skip


UNREADABLE = (
    "The PostgreSQL URL cannot be read. It looks like postgresql://user:password@host:5432/database; special "
    "characters in the password are written with % and two hexadecimal digits."
)


def checked_schema(schema: str | None) -> None:
    """Raise InputError for an impossible name of a schema; PostgreSQL would cut off a longer one."""
    if schema is None:
        return
    if not isinstance(schema, str) or "\0" in schema or not 0 < len(schema.encode(errors="replace")) < 64:
        raise InputError("schema must be the name of a schema, of 1 to 63 bytes.", field="schema")


def checked_dsn(dsn: str) -> str:
    """Return the URL. Raises InputError, quoting nothing of it, if it is not a PostgreSQL URL."""
    if not isinstance(dsn, str) or not dsn.lower().startswith(("postgresql://", "postgres://")):
        raise InputError("A PostgreSQL URL begins with postgresql:// or postgres://.", field="dsn")
    check_place(dsn, field="dsn")
    for name, value in parse_qsl(urlsplit(dsn).query, keep_blank_values=True):
        if name == "port" and not all(is_port(port) for port in value.split(",")):
            raise InputError("The port in the PostgreSQL URL must be a number from 1 to 65535.", field="port")
    return dsn


def take_url_options(url: str, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the URL for the driver, and our own options from its query and the keywords."""
    dsn, options = take_known_options(checked_dsn(url), URL_OPTIONS, given)
    for name, _ in parse_qsl(urlsplit(dsn).query, keep_blank_values=True):
        if name not in _DRIVER_OPTIONS:
            listed = ", ".join(sorted(URL_OPTIONS))
            raise unknown_option(name, url, f"Ours are {listed}; PostgreSQL's own, like sslmode, are taken too.")
    return dsn, options


Attempt = Callable[[str], Awaitable[Any]]
"""Opens a connection to the one host of a URL."""

_HEAD_START = 0.25
_WANTED = "target_session_attrs"


def single_hosts(dsn: str) -> list[str]:
    """Return a URL for each host of a URL. Of several hosts the primary is wanted, unless the URL says otherwise."""
    parts = urlsplit(dsn)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    places = _in_query(query) if "host" in query else parts.netloc.rpartition("@")[2].split(",")
    # For this value the driver must see all hosts: a primary is accepted if there is no standby.
    if len(places) == 1 or query.get(_WANTED) == "prefer-standby":
        return [dsn]
    kept = {name: value for name, value in query.items() if name not in ("host", "port")}
    # It comes last, where Hosts looks for it.
    kept[_WANTED] = kept.pop(_WANTED, "primary")
    return [_at(parts._replace(query=urlencode(kept)), place) for place in places]


def at_host(dsn: str, place: str) -> str:
    """Return the URL with another host, without target_session_attrs."""
    parts = urlsplit(dsn)
    kept = [
        (name, value)
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
        if name not in ("host", "port", _WANTED)
    ]
    return _at(parts._replace(query=urlencode(kept)), place)


def _at(parts: Any, place: str) -> str:
    credentials, at, _ = parts.netloc.rpartition("@")
    return str(urlunsplit(parts._replace(netloc=f"{credentials}{at}{place}")))


def _in_query(query: dict[str, str]) -> list[str]:
    hosts, ports = query["host"].split(","), query.get("port", "").split(",")
    # A single port is that of all hosts.
    ports = ports * len(hosts) if len(ports) == 1 else ports
    encoded = (host.replace("/", "%2F") for host in hosts)
    return [f"{host}:{port}" if port else host for host, port in zip(encoded, ports, strict=False)]


class Hosts:
    """The hosts of a URL, the last suitable one first."""

    def __init__(self, dsn: str) -> None:
        self._urls = single_hosts(dsn)
        self._timeline = ""
        self._led_to: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()

    @property
    def several(self) -> bool:
        """True if there are several hosts."""
        return len(self._urls) > 1

    async def connect(self, attempt: Attempt) -> Any:
        """Return a connection to a suitable host; raises the most informative of the hosts' errors."""
        if not self.several:
            return await attempt(self._urls[0])
        url, connection = await _first(self._urls, partial(self._opened, attempt))
        self._led_to[connection] = url
        self._urls = [url, *(other for other in self._urls if other != url)]
        return connection

    async def moved(self, connection: Any, attempt: Attempt) -> bool:
        """Return True if another host than this connection's is the suitable one now."""
        here = self._led_to.get(connection)
        others = [url for url in self._urls if url != here]
        if here is None or not others:
            return False
        try:
            url, found = await _first(others, partial(self._opened, attempt))
        except (asyncpg.PostgresError, asyncpg.InternalClientError, asyncpg.InterfaceError, OSError):
            return False
        found.terminate()
        self._urls = [url, *(other for other in self._urls if other != url)]
        return True

    async def _opened(self, attempt: Attempt, url: str) -> Any:
        """Return a connection, unless its host is a primary that was replaced."""
        connection = await attempt(url)
        if not url.endswith((f"{_WANTED}=primary", f"{_WANTED}=read-write")):
            return connection
        try:
            # In one transaction, since there may be a pooler.
            async with connection.transaction():
                timeline = (await connection.fetchval("SELECT pg_walfile_name(pg_current_wal_lsn())"))[:8]
            if timeline < self._timeline:
                raise asyncpg.TargetServerAttributeNotMatched("The host was replaced as the primary.")
        except BaseException:
            connection.terminate()
            raise
        self._timeline = timeline
        return connection


async def _first(urls: Sequence[str], open_at: Callable[[str], Coroutine[Any, Any, Any]]) -> tuple[str, Any]:
    """Return the first connection that succeeds, and its URL; the others are dropped.

    While one host does not answer, unsuitable ones are asked again: the next primary is among them.
    """
    tasks: dict[asyncio.Task[Any], str] = {}
    waiting = list(urls)
    errors: dict[str, Exception] = {}
    try:
        while waiting or tasks:
            if waiting:
                url = waiting.pop(0)
                tasks[asyncio.create_task(open_at(url))] = url
            done, _ = await asyncio.wait(tasks, timeout=_HEAD_START, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                url = tasks.pop(task)
                if task.exception() is None:
                    return url, task.result()
                errors[url] = _telling(task)
            if not done and not waiting:
                waiting = [url for url in urls if url not in tasks.values()]
    finally:
        await _dropped(list(tasks))
    raise max(errors.values(), key=_weight)


def _telling(task: asyncio.Task[Any]) -> Exception:
    error = task.exception()
    if not isinstance(error, Exception):
        assert error is not None
        raise error
    return error


async def _dropped(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        # It succeeded at the same time as the winner.
        if not isinstance(outcome, BaseException):
            outcome.terminate()


def _weight(error: Exception) -> int:
    """Rank the errors of hosts: not being a primary says more than being gone, and a refused login says most."""
    if isinstance(error, OSError):
        return 0
    return 1 if isinstance(error, (asyncpg.TargetServerAttributeNotMatched, asyncpg.CannotConnectNowError)) else 2
