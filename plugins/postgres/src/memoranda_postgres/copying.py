"""Rows as the text that COPY reads. The driver would encode value by value, which takes longer than making them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from memoranda_postgres.terms import array_text

# Characters that hardly any text has, so that most rows need only be looked at as a whole.
DELIMITER = "\x01"
NULL = "\x02"

_SEVERED = str.maketrans({mark: f"\\{mark}" for mark in (DELIMITER, NULL)})


def lines(rows: Iterable[Sequence[Any]]) -> bytes:
    """Return rows of texts, numbers, truth values and lists of numbers, each as a line."""
    return "".join([f"{_line(row)}\n" for row in rows]).encode()


def _line(row: Sequence[Any]) -> str:
    fields = [value if type(value) is str else _text(value) for value in row]
    line = DELIMITER.join(fields)
    if line.count(DELIMITER) < len(row) and line.count(NULL) == row.count(None):
        return _escaped(line)
    return DELIMITER.join(
        NULL if value is None else _escaped(field).translate(_SEVERED) for value, field in zip(row, fields, strict=True)
    )


def _text(value: Any) -> str:
    if value is None:
        return NULL
    return array_text(value) if type(value) is list else str(value)


def _escaped(text: str) -> str:
    if "\\" in text:
        text = text.replace("\\", "\\\\")
    if "\n" in text:
        text = text.replace("\n", "\\n")
    if "\r" in text:
        text = text.replace("\r", "\\r")
    return text
