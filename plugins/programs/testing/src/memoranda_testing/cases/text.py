"""Substring search: literal, and case-insensitive in Unicode."""

from __future__ import annotations

from collections.abc import Iterable

from memoranda.store import Store
from memoranda_testing.case import note
from memoranda_testing.expect import contents, equal
from memoranda_testing.programs import Calls, HistoryCases, Program, item, mine, played

LITERAL: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "parts": (
        ("the green tea", "evergreen", "red tea"),
        ("green", "en te", "tea", "the green tea", "the  green", " green", "!"),
    ),
    "nothing": (("", "x"), ("",)),
    "spaces": (("a b", "ab", " "), (" ", "  ")),
    "percent": (("100% sure", "100 sure"), ("%", "0%s", "1%e")),
    "underscore": (("snake_case", "snakeXcase"), ("e_c", "_")),
    "backslash": (("C:\\temp", "C:temp", "a\\%b", "a%b"), ("\\", "\\t", "\\%", "\\\\")),
    "quotes": (("it's", 'say "hi"', "x'; DROP TABLE items; --", "its"), ("'", '"hi"', "'; DROP")),
    "patterns": (
        ("f(x) = [a-z]* .+? ^$ {1,2} a|b ~ @tag: #x & NEAR/2 -not 'q' \"p\"", "fx az ab tag near not"),
        ("[a-z]", "*", ".+", "^$", "{1,2}", "a|b", "@tag:", "& NEAR", "-not", "(x)", "?"),
    ),
    "line ends": (("one\ntwo", "one two"), ("one\ntwo", "\n")),
    "short": (("abc", "bcd", "Ж"), ("a", "bc", "ж")),
    "beyond the basic plane": (("an owl 🦉", "𐐀𐐁", "日本語テキスト"), ("🦉", "𐐨𐐩", "本語")),
}
"""Contents, and queries that are text and nothing else."""

FOLDED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "ASCII": (("Green TEA", "gREEN tea"), ("green tea", "GREEN", "Tea")),
    "Cyrillic and Greek": (("Жираф", "ЖИРАФ", "Ὀδυσσεύς", "ÉCOLE"), ("жираф", "ЖИ", "ὈΔΥΣΣΕΎΣ", "école")),
    "sharp s and ligatures": (("Straße", "STRASSE", "eﬃcient"), ("strasse", "STRAẞE", "straße", "EFFICIENT")),
    "dotted and dotless i": (
        ("İstanbul", "Istanbul", "ısı"),
        ("istanbul", "i\u0307stanbul", "İSTANBUL", "stanbul", "ı", "i"),
    ),
    "accents": (("café", "cafe", "cafe\u0301"), ("café", "cafe", "E\u0301")),
}
"""Contents, and queries that find them by Unicode case folding, or do not."""

ALIKE = [
    *(("①", "1"), ("ｆｕｌｌ", "full"), ("x²", "x2"), ("№", "no"), ("½", "1⁄2"), ("K", "ｋ")),
    *((f"co{each}op", "coop") for each in "\xad\u200b\u200d\ufe0f\u200f\ufeff\u2060"),
    *((f"a{each}b", "a b") for each in "\xa0\u2003\u3000\t"),
]
"""Texts that look alike and are not."""


def _finds(store: Calls, stored: Iterable[str], queries: Iterable[str]) -> Program:
    """Store these contents in order of time, and look for each query."""
    place = mine(session_id="/".join(stored)[:100])
    yield store.add_many([item(text, second, place, id=f"{text[:40]} {second}") for second, text in enumerate(stored)])
    yield from (store.search(query=query, metadata=place, mode="substring", limit=100) for query in queries)


class SubstringCases(HistoryCases):
    """A query is a literal substring of the content, compared by Unicode case folding."""

    @played
    def test_a_query_is_literal(self, store: Calls) -> Program:
        """It may stand anywhere in the content; spaces, wildcards, quotes, escapes and patterns are text."""
        for stored, queries in LITERAL.values():
            yield from _finds(store, stored, queries)

    @played
    def test_case_is_folded_and_nothing_else(self, store: Calls) -> Program:
        """Case folding is Unicode's, expansions included; accents count, and nothing is composed or decomposed."""
        for stored, queries in FOLDED.values():
            yield from _finds(store, stored, queries)

    @played
    def test_characters_that_look_alike_or_are_invisible_are_themselves(self, store: Calls) -> Program:
        """Wide and raised characters are not the plain ones, and no invisible one is left out."""
        for pair in ALIKE:
            yield from _finds(store, pair, pair)

    @played
    def test_every_part_of_a_text_is_found(self, store: Calls) -> Program:
        """A query may begin and end anywhere, within words and between them, and each character counts."""
        content = "The\tgreen tea,\nblack\r\ncoffee  (and milk)\u00a0for Ada's café; 3.14 % of it—née\fLópez"
        parts = [content[start : start + length] for start in range(len(content)) for length in (3, 8, 21, 40)]
        alike = [query.replace(*other) for query in parts for other in (("\t", " "), ("\n", " "), ("  ", " "))]
        yield from _finds(store, [content], dict.fromkeys([*parts, *alike]))

    @played
    def test_long_queries_are_found(self, store: Calls) -> Program:
        """A query of thousands of characters is compared to its end."""
        for text in ("Ab" * 3_000, "Ab" * 35_000):
            yield from _finds(store, (f"{text}x", f"{text}y"), [f"{text.lower()}Y"])

    async def test_long_contents_are_searched_to_their_end(self, store: Store) -> None:
        """The last words of a content of a million characters are found, and those around every size of a piece."""
        text = "word " * 200_000 + "Needle"
        queries = ["d needle"]
        for edge in (*(2**power for power in range(8, 20)), *(10**power for power in range(3, 6)), 500_000):
            queries.append(f"<{edge:x}>")
            before = edge - len(queries[-1]) // 2
            text = text[:before] + queries[-1] + text[before + len(queries[-1]) :]
        scope = self.scope()
        await store.add_many([note(text, scope), note("needless", scope, 1)])
        for query in queries:
            found = contents(await store.search(query=query, metadata=scope, mode="substring"))
            equal(found, [text], f"search for {query!r}")

    @played
    def test_only_the_content_is_searched(self, store: Calls) -> Program:
        """Names, metadata, further fields and contents that were replaced are not."""
        metadata = mine(session_id="needle", extra={"k": "needle"})
        yield store.add(item("hay", metadata=metadata, name="needle", memory_type="needle", further="needle"))
        yield from (store.add(item(text, id="x")) for text in ("old words", "new words"))
        yield from (store.search(query=query, mode="substring") for query in ("needle", "old", "new", "words"))
