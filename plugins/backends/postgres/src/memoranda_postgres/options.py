"""The options of a store and of its URL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from memoranda.errors import InputError
from memoranda.urls import take_known_options, unknown_option
from memoranda_postgres.addresses import check_place, is_port

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
