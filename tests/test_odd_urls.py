"""Store URLs of any shape: only errors of the library come out of them, and no piece of a password."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import memoranda
from memoranda.errors import InputError, MemoryError
from memoranda.urls import redacted
from memoranda_cli.app import app
from memoranda_postgres import PostgresMemoryStore
from memoranda_redis import ShortTermMemoryManager
from memoranda_redis.store import RedisMemoryStore
from memoranda_sqlite import SQLiteMemoryStore

MARKER = "hunter2"
SERVERS = ("postgresql", "postgres", "redis", "rediss", "redis+cluster", "rediss+cluster")
SCHEMES = (*SERVERS, "unix", "sqlite", "vector", "memory", "mysql", "REDIS", "")
PLACES = (
    "host",
    "",
    "host:5432",
    "host:",
    "host:0",
    "host:-1",
    "host:65536",
    "host:70000",
    "host:x",
    "host:١",
    "h1,h2:1",
)
PLACES += (
    "[::1]",
    "[::1",
    "[::1]x",
    "[nonsense]",
    "::1",
    "ho st",
    "host\u2100",
    "ⓗost",
    "a..b",
    "x" * 300,
    "%2Ftmp",
    "%zz",
    "%",
)
QUERIES = (
    "",
    "?",
    "?x=1",
    "?timeout=x",
    "?timeout=1&timeout=2",
    "?port=70000",
    "?port=x",
    "?db=x",
    "?=",
    "?sslmode=odd",
)
QUERIES += ("?ssl_cert_reqs=odd", "?max_connections=x", "?namespace=", "?namespace={", "?%=%", "#x", "?partitions=-1")
CONSTRUCTORS: dict[str, Callable[[str], Any]] = {
    "open": memoranda.open,
    "postgres": PostgresMemoryStore,
    "redis": RedisMemoryStore,
    "redis from_url": RedisMemoryStore.from_url,
    "short-term memory": ShortTermMemoryManager,
    "sqlite": SQLiteMemoryStore,
}

odd_text = st.text(
    st.one_of(st.sampled_from("@:/?#[]%&=;,+ \t\n\\'\"<>{}|^~$!*()_-.aZ0"), st.characters(exclude_categories=["Cs"])),
    max_size=6,
)


@st.composite
def urls_with_a_password(draw: st.DrawFn) -> str:
    """Build a URL whose password holds the marker between any other signs; a host stands behind it."""
    scheme = draw(st.sampled_from(SCHEMES))
    between = draw(st.sampled_from(["://", "://", "://", ":", "//", "", ":/", " ://"]))
    user = draw(st.sampled_from(["ada:", ":", "", "a da:", "a@da:", "ada::"]))
    password = draw(odd_text) + MARKER + draw(odd_text)
    place = draw(st.sampled_from(PLACES))
    path = draw(st.sampled_from(["", "/", "/0", "/db", "/a/b"]))
    return f"{scheme}{between}{user}{password}@{place}{path}{draw(st.sampled_from(QUERIES))}"


any_url = st.one_of(
    st.text(max_size=40),
    st.builds(
        "{}{}{}{}{}".format,
        st.sampled_from(SCHEMES),
        st.sampled_from(["://", ":", "//", ""]),
        st.one_of(st.sampled_from(PLACES), odd_text),
        st.sampled_from(["", "/", "/0", "/db"]),
        st.one_of(st.sampled_from(QUERIES), odd_text),
    ),
)


def everything_said(error: BaseException) -> str:
    """Return all that a person or a program can read of an error."""
    attributes = {name: getattr(error, name) for name in dir(error) if not name.startswith("__")}
    return "\n".join(
        [str(error), repr(error), repr(error.args), repr(attributes), *traceback.format_exception(error)]
    ).casefold()


@pytest.mark.parametrize("name", CONSTRUCTORS)
@given(url=urls_with_a_password())
@example(url=f"ada:{MARKER}@host/db")
@example(url=f"{MARKER}:x@host")
@example(url=f"postgresql://ada:{MARKER}/db")
@example(url=f"redis://:{MARKER}")
@example(url=f"redis://{MARKER}@host")
@example(url=f"redis://ada:x?{MARKER}=1&y@host")
@example(url=f"redis://ada:x?timeout={MARKER}@host")
@example(url=f"sqlite://ada:{MARKER}@host/db")
@example(url=f"postgresql://ada:{MARKER}@host\u2100/db")
@settings(max_examples=6 * settings.default.max_examples, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_error_repeats_a_password(name: str, url: str) -> None:
    try:
        made = CONSTRUCTORS[name](url)
        # A file may have any name; a server's address is shown without its password.
        said = "" if isinstance(made, SQLiteMemoryStore) else repr(made).casefold()
    except MemoryError as error:
        said = everything_said(error)

    assert MARKER not in said


@given(url=urls_with_a_password())
@settings(max_examples=10 * settings.default.max_examples, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_shown_url_repeats_a_password(url: str) -> None:
    assert MARKER not in redacted(url).casefold()


@given(url=urls_with_a_password())
@settings(deadline=None, suppress_health_check=list(HealthCheck))
def test_the_command_and_the_logs_repeat_no_password(url: str, caplog: pytest.LogCaptureFixture) -> None:
    assume("\0" not in url)  # No argument and no variable of a process can hold one.
    caplog.set_level(logging.DEBUG)
    try:
        memoranda.open(url)
    except MemoryError:
        pass
    else:
        return  # It would connect.
    for line in (["stats", f"--store={url}"], ["copy", "memory://", "--", url], ["search"]):
        done = CliRunner().invoke(app, line, env={"MEMORANDA_URL": url})
        assert done.exit_code != 0 or "copy" in line
        assert MARKER not in done.output.casefold()
    assert MARKER not in caplog.text.casefold()


@pytest.mark.parametrize("name", CONSTRUCTORS)
@given(url=any_url)
@settings(max_examples=8 * settings.default.max_examples, deadline=None, suppress_health_check=list(HealthCheck))
def test_only_errors_of_the_library_come_out_of_any_text(name: str, url: str) -> None:
    with suppress(MemoryError):
        CONSTRUCTORS[name](url)


@pytest.mark.parametrize("place", ["host:70000", "host:0", "host:-1", "host:65536", "host:x", "[::1", "[odd]", "ho st"])
@pytest.mark.parametrize("scheme", SERVERS)
def test_a_host_or_port_that_is_none_is_an_input_error(scheme: str, place: str) -> None:
    with pytest.raises(InputError, match=r"port|host|cannot be read|not a store URL"):
        memoranda.open(f"{scheme}://ada:secret@{place}/0")


@pytest.mark.parametrize(
    "url", ["redis+cluster://", "redis+cluster://:7000", "redis+cluster:///0", "rediss+cluster://a:b@"]
)
def test_a_cluster_needs_a_host(url: str) -> None:
    with pytest.raises(InputError, match=r"host|looks like"):
        memoranda.open(url)


@pytest.mark.parametrize("url", ["postgresql://h/db?port=70000", "postgresql://h/db?host=a,b&port=1,0"])
def test_a_port_among_the_options_is_checked_too(url: str) -> None:
    with pytest.raises(InputError, match="port"):
        memoranda.open(url)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:p%40ss@host:5432/db",
        "postgresql:///db?host=/tmp",
        "postgresql://%2Fvar%2Frun/db",
        "postgresql://h1:1,h2:2/db",
        "postgresql://[::1]:5432/db",
        "postgresql://my_host/db",
        "redis://:pw@host",
        "redis://host:6379/3",
        "redis://[::1]:6379/0",
        "redis:///0",
        "redis+cluster://host:7000",
        "unix:///tmp/redis.sock",
    ],
)
def test_addresses_that_work_are_taken(url: str) -> None:
    make = RedisMemoryStore if url.startswith(("redis", "unix")) else PostgresMemoryStore

    assert repr(make(url))
