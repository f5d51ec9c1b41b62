"""Threads that make terms at once make the terms that one alone makes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from snowballstemmer import stemmer

from memoranda_backend.text import index_terms

THREADS = 6
WORDS = 400

ENGLISH = ("izations", "fulness", "ingly", "ational", "iveness", "ements")
GERMAN = ("ungen", "heiten", "lichkeit", "ischen", "erinnen", "igkeiten")


@pytest.fixture
def threads_that_alternate() -> Iterator[ThreadPoolExecutor]:
    """Threads that give way to each other far more often than usual."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(THREADS) as threads:
            yield threads
    finally:
        sys.setswitchinterval(interval)


def unseen(marker: str, thread: int, suffixes: tuple[str, ...]) -> list[str]:
    """Return words that no cache knows, since they are of one test and one thread alone."""
    letters = "bcdfghklmnprstvz"
    return [
        f"{marker}{letters[thread]}o{letters[number % 16]}a{letters[number // 16 % 16]}{suffixes[number % 6]}"
        for number in range(WORDS)
    ]


@pytest.mark.parametrize(
    ("algorithm", "marker", "beginning", "suffixes"),
    [("porter", "quim", "", ENGLISH), ("german", "blor", "der die und das ist nicht ", GERMAN)],
)
def test_threads_get_the_stems_of_their_own_words(
    threads_that_alternate: ThreadPoolExecutor, algorithm: str, marker: str, beginning: str, suffixes: tuple[str, ...]
) -> None:
    together = Barrier(THREADS)
    alone = stemmer(algorithm)

    def made(thread: int) -> list[str]:
        together.wait()
        return [index_terms(beginning + word)[-1] for word in unseen(marker, thread, suffixes)]

    found = list(threads_that_alternate.map(made, range(THREADS)))

    expected = [[alone.stemWord(word) for word in unseen(marker, thread, suffixes)] for thread in range(THREADS)]
    assert found == expected
