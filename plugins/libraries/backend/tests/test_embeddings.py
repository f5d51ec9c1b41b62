"""Embedders, the check of their vectors, and vectors as stores keep them."""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.embeddings import Embeddings
from memoranda.errors import BadVectorError, EmbeddingError, InputError, MemoryError
from memoranda_backend.ranking import (
    WHITESPACE,
    HashingEmbeddings,
    cosines,
    embed_query,
    embed_texts,
    has_text,
    normalised,
    pack_vector,
    unpack_vector,
)


class Fixed(Embeddings):
    """Returns what it was made with."""

    def __init__(self, vector: object, dimension: int = 3) -> None:
        self._vector = vector
        self._dimension = dimension

    @property
    def dimension(self) -> int:
        return self._dimension

    def embed(self, text: str) -> list[float]:
        if isinstance(self._vector, Exception):
            raise self._vector
        return self._vector  # type: ignore[return-value]  # bad vectors are the point

    async def aembed(self, text: str) -> list[float]:
        return self.embed(text)


def similarity(embeddings: Embeddings, left: str, right: str) -> float:
    return cosines(embeddings.embed(left), [pack_vector(embeddings.embed(right), embeddings.dimension)])[0]


async def test_several_texts_are_embedded_in_their_order_by_default() -> None:
    class Lengths(Fixed):
        async def aembed(self, text: str) -> list[float]:
            return [float(len(text)), 0, 0]

        def embed(self, text: str) -> list[float]:
            return [float(len(text)), 0, 0]

    embeddings = Lengths(None)
    expected = [[1.0, 0, 0], [2.0, 0, 0]]
    assert embeddings.embed_many(["a", "bb"]) == await embeddings.aembed_many(["a", "bb"]) == expected


@pytest.mark.parametrize("missing", ["embed", "aembed", "dimension"])
def test_an_embedder_without_one_of_the_three_cannot_be_made(missing: str) -> None:
    namespace = {name: getattr(Fixed, name) for name in ("embed", "aembed", "dimension") if name != missing}
    with pytest.raises(TypeError, match=missing):
        type("Partial", (Embeddings,), namespace)()


def test_the_identity_is_the_model_or_the_class() -> None:
    named = Fixed([])
    named.model = "mini"  # type: ignore[attr-defined]  # any embedder may have it
    assert (named.identity(), Fixed([]).identity()) == ("mini", "Fixed")


def test_hashing_finds_texts_that_share_words() -> None:
    embeddings = HashingEmbeddings()
    assert similarity(embeddings, "hiking in the mountains", "we hiked a mountain") > 0.7
    assert abs(similarity(embeddings, "hiking in the mountains", "tax returns")) < 0.3


def test_hashing_is_the_same_in_every_process() -> None:
    code = "from memoranda_backend.ranking import HashingEmbeddings; print(HashingEmbeddings(16).embed('a dog, Ж 猫'))"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert other == str(HashingEmbeddings(16).embed("a dog, Ж 猫"))


async def test_hashing_gives_the_same_vector_with_and_without_async() -> None:
    embeddings = HashingEmbeddings(32)
    assert await embeddings.aembed("hello") == embeddings.embed("hello")
    assert len(embeddings.embed("hello")) == embeddings.dimension == 32


def test_a_text_without_words_has_the_zero_vector() -> None:
    assert set(HashingEmbeddings(8).embed("…")) == {0.0}


@pytest.mark.parametrize("bad", [0, -1, 1.5, None])
def test_hashing_refuses_a_dimension_that_is_none(bad: object) -> None:
    with pytest.raises(InputError, match="dimension"):
        HashingEmbeddings(bad)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "bad",
    [
        [],
        [1.0, 2.0],
        [1.0] * 4,
        [math.nan, 0, 0],
        [math.inf, 0, 0],
        [math.inf, -math.inf, 0],
        [1e300, 0, 0],
        ["a", "b", "c"],
        [None, 0, 0],
        [[1.0], [2.0], [3.0]],
        "abc",
        b"abcabcabcabc",
        None,
        3.5,
    ],
)
async def test_a_bad_vector_is_refused(bad: object) -> None:
    with pytest.raises(BadVectorError) as caught:
        await embed_texts(Fixed(bad), ["hello"])
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, MemoryError)


@pytest.mark.parametrize("bad", [[1.0], [math.nan, 0, 0]])
async def test_one_bad_vector_of_several_is_refused(bad: list[float]) -> None:
    class Last(Fixed):
        async def aembed_many(self, texts: Sequence[str]) -> list[list[float]]:
            return [[1.0, 0, 0], bad]

    with pytest.raises(BadVectorError):
        await embed_texts(Last(None), ["a", "b"])


@pytest.mark.parametrize("returned", [None, 7, [], [[1.0, 0, 0]], [[1.0, 0, 0]] * 3])
async def test_the_wrong_number_of_vectors_is_refused(returned: object) -> None:
    class Short(Fixed):
        async def aembed_many(self, texts: Sequence[str]) -> list[list[float]]:
            return returned  # type: ignore[return-value]  # as above

    with pytest.raises(EmbeddingError):
        await embed_texts(Short(None), ["a", "b"])


async def test_a_failing_provider_is_one_error_that_keeps_its_cause_and_no_content() -> None:
    failure = RuntimeError("cannot embed 'my secret'")
    with pytest.raises(EmbeddingError, match="Fixed failed with RuntimeError") as caught:
        await embed_texts(Fixed(failure), ["my secret"])
    assert caught.value.__cause__ is failure
    assert "secret" not in str(caught.value)


async def test_cancelling_an_embedder_is_no_error_of_its_own() -> None:
    asked = asyncio.Event()

    class Silent(Fixed):
        async def aembed(self, text: str) -> list[float]:
            asked.set()
            await asyncio.Event().wait()
            return []

    task = asyncio.create_task(embed_texts(Silent(None), ["a"]))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_no_texts_need_no_provider() -> None:
    assert await embed_texts(Fixed(RuntimeError()), []) == []


finite = st.floats(-1e6, 1e6, width=32)


@given(st.lists(finite, min_size=1, max_size=8))
def test_a_packed_vector_has_length_one_or_zero(values: list[float]) -> None:
    vector = unpack_vector(pack_vector(values, len(values)))
    assert math.hypot(*vector) == pytest.approx(1.0 if any(values) else 0.0, abs=1e-6)


@given(st.lists(finite, min_size=4, max_size=4), st.lists(st.lists(finite, min_size=4, max_size=4), max_size=5))
def test_cosines_are_those_of_the_angle(query: list[float], rows: list[list[float]]) -> None:
    found = cosines(query, [pack_vector(row, 4) for row in rows])
    for cosine, row in zip(found, rows, strict=True):
        lengths = math.hypot(*query) * math.hypot(*row)
        dot = sum(left * right for left, right in zip(query, row, strict=True))
        assert cosine == pytest.approx(dot / lengths if lengths else 0.0, abs=1e-4)


def test_vectors_of_different_lengths_are_not_compared() -> None:
    with pytest.raises(BadVectorError, match="different lengths"):
        cosines([1.0, 0.0], [pack_vector([1.0, 0.0, 0.0], 3)])


def test_zeros_stay_zeros() -> None:
    assert list(normalised([0.0, 0.0])) == [0.0, 0.0]


def test_importing_embeddings_imports_no_numpy() -> None:
    code = "import memoranda.embeddings, memoranda_backend.ranking, sys; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_whitespace_is_what_python_takes_for_it() -> None:
    every = {character for character in map(chr, range(sys.maxunicode + 1)) if character.isspace()}
    assert set(WHITESPACE) == every
    assert not has_text(WHITESPACE)


async def test_texts_without_text_have_zeros_and_are_not_sent() -> None:
    class Strict(HashingEmbeddings):
        async def aembed_many(self, texts: Sequence[str]) -> list[list[float]]:
            assert all(texts)
            return await super().aembed_many(texts)

    vectors = await embed_texts(Strict(8), ["", "green tea", " \n", "a cat"])

    assert [any(vector) for vector in vectors] == [False, True, False, True]
    assert [len(vector) for vector in vectors] == [8] * 4


@pytest.mark.parametrize("query", ["", " \n"])
async def test_nothing_is_asked_for_a_query_without_text(query: str) -> None:
    class Unasked(HashingEmbeddings):
        async def aembed_many(self, texts: Sequence[str]) -> list[list[float]]:
            pytest.fail(f"asked for {len(texts)} texts")

    vector, _ = await embed_query(Unasked(8), query)

    assert not any(vector)


class _Asking(HashingEmbeddings):
    """Embeds a query by another word than the texts that answer it."""

    async def aembed_query(self, query: str) -> list[float]:
        return self.embed(query.replace("ask:", ""))


async def test_a_query_is_embedded_as_the_embedder_says() -> None:
    (asked,) = await embed_texts(_Asking(), ["ask:puppy"], query=True)
    (told,) = await embed_texts(_Asking(), ["puppy"])
    assert asked == told
