"""Substring search: literal, and case-insensitive in Unicode."""

from __future__ import annotations

from memoranda.errors import InputError
from memoranda.store import Store
from memoranda_testing.case import Cases, note
from memoranda_testing.expect import contents, equal, raises


class SubstringCases(Cases):
    """A query is a literal substring of the content, compared by Unicode case folding."""

    async def _finds(self, store: Store, stored: list[str], wanted: list[tuple[str, list[str]]]) -> None:
        """Store these contents in order of time and compare what each query finds, oldest first."""
        scope = self.scope()
        await store.add_many([note(text, scope, second) for second, text in enumerate(stored)])
        for query, found in wanted:
            items = await store.search(query=query, metadata=scope, mode="substring", limit=100)
            equal(contents(reversed(items)), found, f"search for {query!r}")

    async def test_query_finds_substrings(self, store: Store) -> None:
        """The query may stand anywhere in the content, also in the middle of a word or across spaces."""
        await self._finds(
            store,
            ["the green tea", "evergreen", "red tea"],
            [
                ("green", ["the green tea", "evergreen"]),
                ("en te", ["the green tea"]),
                ("tea", ["the green tea", "red tea"]),
                ("the green tea", ["the green tea"]),
                ("the  green", []),
                (" green", ["the green tea"]),
                ("the green tea!", []),
            ],
        )

    async def test_the_empty_query_matches_all(self, store: Store) -> None:
        """The empty text is part of every content, the empty one included."""
        await self._finds(store, ["", "x"], [("", ["", "x"])])

    async def test_a_query_of_spaces_is_literal(self, store: Store) -> None:
        """Spaces are not trimmed."""
        await self._finds(store, ["a b", "ab", " "], [(" ", ["a b", " "]), ("  ", [])])

    async def test_percent_is_literal(self, store: Store) -> None:
        """A percent sign matches itself alone."""
        await self._finds(store, ["100% sure", "100 sure"], [("%", ["100% sure"]), ("0%s", []), ("1%e", [])])

    async def test_underscore_is_literal(self, store: Store) -> None:
        """An underscore matches itself alone."""
        await self._finds(store, ["snake_case", "snakeXcase"], [("e_c", ["snake_case"]), ("_", ["snake_case"])])

    async def test_backslash_is_literal(self, store: Store) -> None:
        """A backslash matches itself and escapes nothing."""
        await self._finds(
            store,
            ["C:\\temp", "C:temp", "a\\%b", "a%b"],
            [("\\", ["C:\\temp", "a\\%b"]), ("\\t", ["C:\\temp"]), ("\\%", ["a\\%b"]), ("\\\\", [])],
        )

    async def test_quotes_are_literal(self, store: Store) -> None:
        """Quotes, semicolons and comment marks are text."""
        await self._finds(
            store,
            ["it's", 'say "hi"', "x'; DROP TABLE items; --", "its"],
            [
                ("'", ["it's", "x'; DROP TABLE items; --"]),
                ('"hi"', ['say "hi"']),
                ("'; DROP", ["x'; DROP TABLE items; --"]),
            ],
        )

    async def test_pattern_characters_are_literal(self, store: Store) -> None:
        """What other query languages read as patterns is text here."""
        text = "f(x) = [a-z]* .+? ^$ {1,2} a|b ~ @tag: #x & NEAR/2 -not 'q' \"p\""
        parts = ["[a-z]", "*", ".+", "^$", "{1,2}", "a|b", "@tag:", "& NEAR", "-not", "(x)", "?"]
        await self._finds(store, [text, "fx az ab tag near not"], [(part, [text]) for part in parts])

    async def test_ascii_case_is_ignored(self, store: Store) -> None:
        """Upper and lower case are the same, both ways."""
        both = ["Green TEA", "gREEN tea"]
        await self._finds(store, both, [("green tea", both), ("GREEN", both), ("Tea", both)])

    async def test_cyrillic_and_greek_case_is_ignored(self, store: Store) -> None:
        """Case folding is not limited to ASCII."""
        await self._finds(
            store,
            ["Жираф", "ЖИРАФ", "Ὀδυσσεύς", "ÉCOLE"],
            [
                ("жираф", ["Жираф", "ЖИРАФ"]),
                ("ЖИ", ["Жираф", "ЖИРАФ"]),
                ("ὈΔΥΣΣΕΎΣ", ["Ὀδυσσεύς"]),
                ("école", ["ÉCOLE"]),
            ],
        )

    async def test_folding_expands_sharp_s_and_ligatures(self, store: Store) -> None:
        """ß is found by ss and by ẞ, ligatures by their letters, as case folding has it."""
        await self._finds(
            store,
            ["Straße", "STRASSE", "eﬃcient"],
            [
                ("strasse", ["Straße", "STRASSE"]),
                ("STRAẞE", ["Straße", "STRASSE"]),
                ("straße", ["Straße", "STRASSE"]),
                ("EFFICIENT", ["eﬃcient"]),
            ],
        )

    async def test_folding_of_dotted_and_dotless_i(self, store: Store) -> None:
        """İ folds to i with a dot above, so that it is found by i; ı stays itself."""
        await self._finds(
            store,
            ["İstanbul", "Istanbul", "ısı"],
            [
                ("istanbul", ["Istanbul"]),
                ("i\u0307stanbul", ["İstanbul"]),
                ("İSTANBUL", ["İstanbul"]),
                ("stanbul", ["İstanbul", "Istanbul"]),
                ("ı", ["ısı"]),
                ("i", ["İstanbul", "Istanbul"]),
            ],
        )

    async def test_nothing_but_case_is_folded(self, store: Store) -> None:
        """Accents count, and composed characters are not decomposed."""
        await self._finds(
            store,
            ["café", "cafe", "cafe\u0301"],
            [("café", ["café"]), ("cafe", ["cafe", "cafe\u0301"]), ("E\u0301", ["cafe\u0301"])],
        )

    async def test_characters_that_look_alike_or_are_invisible_are_themselves(self, store: Store) -> None:
        """Wide and raised characters are not the plain ones, and no invisible one is left out."""
        pairs = [("①", "1"), ("ｆｕｌｌ", "full"), ("x²", "x2"), ("№", "no"), ("½", "1⁄2"), ("K", "ｋ")]
        pairs += [(f"co{each}op", "coop") for each in "\xad\u200b\u200d\ufe0f\u200f\ufeff\u2060"]
        pairs += [(f"a{each}b", "a b") for each in "\xa0\u2003\u3000\t"]
        for one, other in pairs:
            await self._finds(store, [one, other], [(one, [one]), (other, [other])])

    async def test_characters_beyond_the_basic_plane_are_found(self, store: Store) -> None:
        """Emoji and scripts beyond U+FFFF are found, with their case folded."""
        await self._finds(
            store,
            ["an owl 🦉", "𐐀𐐁", "日本語テキスト"],
            [("🦉", ["an owl 🦉"]), ("𐐨𐐩", ["𐐀𐐁"]), ("本語", ["日本語テキスト"])],
        )

    async def test_every_part_of_a_text_is_found(self, store: Store) -> None:
        """A query may begin and end anywhere, within words and between them, and each character counts."""
        scope = self.scope()
        content = "The\tgreen tea,\nblack\r\ncoffee  (and milk)\u00a0for Ada's café; 3.14 % of it—née\fLópez"
        await store.add(note(content, scope))
        for start in range(len(content)):
            for length in (3, 8, 21, 40):
                query = content[start : start + length]
                for asked in {query, query.replace("\t", " "), query.replace("\n", " "), query.replace("  ", " ")}:
                    found = await store.search(query=asked, metadata=scope, mode="substring")
                    equal(len(found), int(asked in content), f"how many items have {asked!r}")

    async def test_line_ends_are_part_of_the_text(self, store: Store) -> None:
        """A query may reach over a line end."""
        await self._finds(store, ["one\ntwo", "one two"], [("one\ntwo", ["one\ntwo"]), ("\n", ["one\ntwo"])])

    async def test_short_queries_are_found(self, store: Store) -> None:
        """One and two characters suffice, whatever index there is."""
        await self._finds(store, ["abc", "bcd", "Ж"], [("a", ["abc"]), ("bc", ["abc", "bcd"]), ("ж", ["Ж"])])

    async def test_long_queries_are_found(self, store: Store) -> None:
        """A query of thousands of characters is compared to its end."""
        for text in ("Ab" * 3_000, "Ab" * 35_000):
            await self._finds(store, [f"{text}x", f"{text}y"], [(f"{text.lower()}Y", [f"{text}y"])])

    async def test_long_contents_are_searched_to_their_end(self, store: Store) -> None:
        """The last words of a content of a million characters are found, and those around every size of a piece."""
        text = "word " * 200_000 + "Needle"
        queries = ["d needle"]
        for edge in (*(2**power for power in range(8, 20)), *(10**power for power in range(3, 6)), 500_000):
            queries.append(f"<{edge:x}>")
            before = edge - len(queries[-1]) // 2
            text = text[:before] + queries[-1] + text[before + len(queries[-1]) :]
        await self._finds(store, [text, "needless"], [(query, [text]) for query in queries])

    async def test_only_the_content_is_searched(self, store: Store) -> None:
        """Names, metadata and further fields are not."""
        scope = self.scope(session_id="needle", extra={"k": "needle"})
        await store.add(note("hay", scope, name="needle", memory_type="needle", further="needle"))
        equal(
            await store.search(query="needle", metadata=scope, mode="substring"), [], "search for what is not content"
        )

    async def test_a_replaced_content_is_no_longer_found(self, store: Store) -> None:
        """After a replacement the new content is found and the old one is not."""
        scope = self.scope()
        item = note("old words", scope)
        await store.add(item)
        await store.add(note("new words", scope, id=item.id))
        for query, wanted in (("old", []), ("new", ["new words"]), ("words", ["new words"])):
            found = await store.search(query=query, metadata=scope, mode="substring")
            equal(contents(found), wanted, f"search for {query!r} after a replacement")

    async def test_a_query_that_nothing_can_match_is_refused(self, store: Store) -> None:
        """NUL characters and lone surrogates in a query are InputErrors that name it."""
        for query in ("a\0b", "\ud800"):
            with raises(InputError, f"search(query={query!r})") as raised:
                await store.search(query=query, mode="substring")
            equal(raised.error.field, "query", "the field that the error names")
