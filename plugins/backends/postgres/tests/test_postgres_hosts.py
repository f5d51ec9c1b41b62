"""URLs of several hosts."""

from __future__ import annotations

import pytest

from memoranda_postgres.urls import at_host, single_hosts


@pytest.mark.parametrize(
    ("dsn", "singles"),
    [
        ("postgresql://one/db", ["postgresql://one/db"]),
        ("postgresql:///db", ["postgresql:///db"]),
        (
            "postgresql://u:p%40@one,two:5433/db?sslmode=require",
            [
                "postgresql://u:p%40@one/db?sslmode=require&target_session_attrs=primary",
                "postgresql://u:p%40@two:5433/db?sslmode=require&target_session_attrs=primary",
            ],
        ),
        (
            "postgresql://one,[::1]:5433/db?target_session_attrs=any",
            [
                "postgresql://one/db?target_session_attrs=any",
                "postgresql://[::1]:5433/db?target_session_attrs=any",
            ],
        ),
        (
            "postgresql:///db?host=one,/run/pg&port=5433,5434",
            [
                "postgresql://one:5433/db?target_session_attrs=primary",
                "postgresql://%2Frun%2Fpg:5434/db?target_session_attrs=primary",
            ],
        ),
        (
            "postgresql:///db?host=one,two&port=5433",
            [
                "postgresql://one:5433/db?target_session_attrs=primary",
                "postgresql://two:5433/db?target_session_attrs=primary",
            ],
        ),
        (
            "postgresql://one,two/db?target_session_attrs=prefer-standby",
            ["postgresql://one,two/db?target_session_attrs=prefer-standby"],
        ),
    ],
)
def test_each_host_has_a_url_and_the_primary_is_wanted_of_several(dsn: str, singles: list[str]) -> None:
    assert single_hosts(dsn) == singles


def test_another_host_keeps_the_login_and_the_options_but_not_what_was_wanted_of_the_hosts() -> None:
    dsn = "postgresql://u:p@one,two/db?host=three&sslmode=require&target_session_attrs=primary"
    assert at_host(dsn, "four:5433") == "postgresql://u:p@four:5433/db?sslmode=require"
