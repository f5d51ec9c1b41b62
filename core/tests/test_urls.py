"""Store URLs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memoranda.errors import InputError
from memoranda.urls import redacted, scheme_of, take_known_options, take_options, yes_or_no


@pytest.mark.parametrize(
    ("url", "scheme"),
    [("sqlite:///a.db", "sqlite"), ("POSTGRESQL://h/d", "postgresql"), ("redis+cluster://h:1", "redis+cluster")],
)
def test_the_scheme_is_read_in_lower_case(url: str, scheme: str) -> None:
    assert scheme_of(url) == scheme


@pytest.mark.parametrize("url", ["", "agent.db", "://x", "1abc://x"])
def test_text_without_a_scheme_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="store URL"):
        scheme_of(url)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ada:s3cret@h/d", "postgresql://ada:***@h/d"),
        ("redis://:s3cret@h:6379/0", "redis://:***@h:6379/0"),
        ("postgresql://ada:p@ss@h/d", "postgresql://ada:***@h/d"),
        ("postgresql://h/d?user=a&password=s3cret&x=1", "postgresql://h/d?user=a&password=***&x=1"),
        ("sqlite:///a.db", "sqlite:///a.db"),
    ],
)
def test_passwords_are_not_shown(url: str, shown: str) -> None:
    assert redacted(url) == shown


def test_options_are_read_by_their_functions() -> None:
    rest, options = take_options("sqlite:///a.db?size=3&fast=yes", {"size": int, "fast": yes_or_no})

    assert rest == "sqlite:///a.db"
    assert options == {"size": 3, "fast": True}


def test_a_url_without_options_stays_as_it_is() -> None:
    assert take_options("sqlite:////tmp/a%20b.db", {}) == ("sqlite:////tmp/a%20b.db", {})


@pytest.mark.parametrize(
    ("query", "message"),
    [("sise=3", "unknown option 'sise'. Known: size"), ("size=3&size=4", "twice"), ("size=many", "cannot be read")],
)
def test_wrong_options_are_named(query: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        take_options(f"x://h?{query}", {"size": int})


def test_a_drivers_own_options_can_stay_in_the_url() -> None:
    rest, options = take_known_options("postgresql://h/d?sslmode=require&size=3", {"size": int})

    assert rest == "postgresql://h/d?sslmode=require"
    assert options == {"size": 3}


@pytest.mark.parametrize("password", ["p/w", "p?w", "p#w", "p@w", "p:w", "p/w@x:y"])
def test_passwords_that_were_not_quoted_are_not_shown_either(password: str) -> None:
    assert redacted(f"postgresql://ada:{password}@host:5432/db") == "postgresql://ada:***@host:5432/db"


@pytest.mark.parametrize("url", [3, None, b"memory://", Path("agent.db")])
def test_what_is_no_text_is_no_url(url: Any) -> None:
    with pytest.raises(InputError, match="text"):
        scheme_of(url)


def test_a_url_that_cannot_be_split_is_an_input_error() -> None:
    with pytest.raises(InputError, match="not a store URL"):
        take_options("memory://[", {})
