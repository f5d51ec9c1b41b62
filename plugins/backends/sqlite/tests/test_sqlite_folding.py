"""Substrings are compared by Unicode case folding, though the engine decides by itself where it can."""

from __future__ import annotations

import sqlite3
import sys

from hypothesis import given
from hypothesis import strategies as st

from memoranda.store.backend import Contains
from memoranda_backend.sql import Parameters
from memoranda_sqlite.dialect import MISTAKABLE, register_functions
from memoranda_sqlite.statements import SQLiteStatements


def test_no_other_letter_of_ascii_is_what_another_character_is_folded_to() -> None:
    """What the engine may decide by itself depends on it, and Unicode grows."""
    others = {letter for code in range(128, sys.maxunicode + 1) for letter in chr(code).casefold() if letter.isascii()}
    assert others == MISTAKABLE


LETTERS = "aAkKsSiIfFtTzZ %_\\'\"0éÉßſKİıﬁŉπΠςΣ\U00010400"


@given(
    texts=st.lists(st.text(LETTERS, max_size=8), min_size=5, max_size=30),
    queries=st.lists(st.text(LETTERS, min_size=1, max_size=5), min_size=10, max_size=30),
)
def test_the_engine_compares_as_python_folds(texts: list[str], queries: list[str]) -> None:
    statements = SQLiteStatements()
    connection = sqlite3.connect(":memory:")
    register_functions(connection)
    connection.execute("CREATE TABLE memory_items (content TEXT)")
    connection.executemany("INSERT INTO memory_items VALUES (?)", [(text,) for text in texts])
    for query in queries:
        parameters = Parameters(statements.dialect)
        where = statements.condition(parameters, Contains(query.casefold()))
        rows = connection.execute(f"SELECT content FROM memory_items WHERE {where}", parameters.values).fetchall()
        assert [text for (text,) in rows] == [text for text in texts if query.casefold() in text.casefold()], query
    connection.close()
