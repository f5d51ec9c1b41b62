"""Statements of many parts."""

from __future__ import annotations

import sqlite3

import pytest

from memoranda_backend.sql import union_all
from memoranda_backend.sql.statements import any_of


@pytest.mark.parametrize("count", [1, 2, 100, 101, 1_500, 10_001])
def test_however_many_parts_a_statement_has_an_engine_takes_it(count: int) -> None:
    engine = sqlite3.connect(":memory:")

    rows = engine.execute(union_all([f"SELECT {number} AS number" for number in range(count)])).fetchall()
    (found,) = engine.execute(f"SELECT {any_of([f'{count} = {number}' for number in range(1, count + 1)])}").fetchone()

    assert rows == [(number,) for number in range(count)]
    assert found
