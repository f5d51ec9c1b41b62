"""Terms fit any index, and forms of one word are one term."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda_backend.text import index_terms, index_words, query_language, query_terms, terms_fingerprint


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("hikes", "hiking"),
        ("went", "go"),
        ("children", "child"),
        ("CAFÉ", "cafe"),
        ("Straße", "STRASSE"),
        ("ЖЁЛТЫЙ", "желтый"),
        ("ﬁsh", "fish"),
        ("7th", "7"),
        ("Sept", "September"),
        ("relational", "relate"),
    ],
)
def test_forms_of_one_word_are_one_term(left: str, right: str) -> None:
    assert query_terms(left) == query_terms(right)
    assert set(query_terms(left)) <= set(index_terms(right))


@pytest.mark.parametrize(
    ("word", "stem"),
    [
        ("caresses", "caress"),
        ("ponies", "poni"),
        ("cats", "cat"),
        ("agreed", "agre"),
        ("plastered", "plaster"),
        ("motoring", "motor"),
        ("hopping", "hop"),
        ("filing", "file"),
        ("sky", "sky"),
        ("vietnamization", "vietnam"),
        ("triplicate", "triplic"),
        ("hopefulness", "hope"),
        ("adjustment", "adjust"),
        ("adoption", "adopt"),
        ("controlling", "control"),
        ("rate", "rate"),
    ],
)
def test_stems_are_porters(word: str, stem: str) -> None:
    assert query_terms(word) == (stem,)
    assert index_terms(word) == list(dict.fromkeys((word, stem)))


def test_the_words_of_a_text_are_kept_as_they_are() -> None:
    assert index_words("She went hiking, the 7th time") == ["she", "went", "hiking", "the", "7", "time"]


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("maddie dumped me over break", "english"),
        ("dumped", None),
        ("mera dost kal Mumbai se aa raha hai", None),
        ("kal milte hain chai pe", None),
        ("wo wohnt mein Hund", "german"),
        ("¿Cómo se llama mi perro?", "spanish"),
        ("Waar woont de zus van mijn vriend?", "dutch"),
        ("komşuların evleri bir ve", "turkish"),
    ],
)
def test_a_language_is_told_by_several_words_and_not_by_one(text: str, language: str | None) -> None:
    assert query_language(text) == language


def test_what_does_not_tell_its_language_has_the_usual_one() -> None:
    assert query_language("over break", "german") == "german"
    assert query_language("what did they say about it", "german") == "english"


def test_underscores_and_punctuation_divide_words() -> None:
    assert index_terms("user_id=42, e-mail") == ["user", "id", "42", "e", "mail"]


def test_unspaced_scripts_become_characters_and_pairs() -> None:
    assert index_terms("東京都") == ["東", "京", "都", "東京", "京都"]


def test_a_query_in_an_unspaced_script_looks_for_pairs_and_ideographs() -> None:
    assert query_terms("東京都") == ("東京", "京都", "東", "京", "都")
    assert query_terms("食べました") == ("食べ", "食")  # Endings tell nothing,
    assert query_terms("ました") == ("まし", "した")  # unless there is nothing else.


def test_a_single_character_of_an_unspaced_script_is_found() -> None:
    assert set(query_terms("猫")) <= set(index_terms("私は猫が好き"))


def test_vowel_signs_stay_in_their_word() -> None:
    assert index_terms("हिन्दी भाषा") == ["हिन्दी", "भाषा"]


def test_a_query_drops_stopwords_and_repetitions() -> None:
    assert query_terms("What did the dog do with the other dog?") == ("dog", "other")


def test_a_query_of_stopwords_keeps_them() -> None:
    assert len(query_terms("who are you")) == 3


def test_emoji_and_punctuation_carry_no_terms() -> None:
    assert query_terms("🎉 !? …") == ()


def test_a_long_word_is_cut() -> None:
    assert len(index_terms("x" * 5000)[0]) == 40


def test_a_date_in_figures_is_the_date_in_words() -> None:
    assert set(query_terms("2023-05-08")) == set(query_terms("8 May 2023"))


@given(st.text())
def test_any_text_gives_terms_that_fit_an_index(text: str) -> None:
    for term in index_terms(text):
        assert term
        assert not any(character.isspace() or character in "\0'\"" for character in term)


@given(st.text())
def test_every_query_finds_its_own_text(text: str) -> None:
    assert set(query_terms(text)) <= set(index_terms(text))


def _fingerprint_with(change: str) -> str:
    """Return the fingerprint of terms in a process of its own, after a change to how they are made."""
    code = f"import sys\n{change}\nfrom memoranda_backend.text import terms_fingerprint\nprint(terms_fingerprint())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=True)
    return done.stdout.strip()


@pytest.mark.rare("fingerprints")
@pytest.mark.parametrize(
    "change",
    [
        "sys.modules['snowballstemmer'] = None",
        "from memoranda_backend.text import stemming; stemming.IRREGULAR['mice'] = 'mice'",
        "from memoranda_backend.text import stemming; stemming.IRREGULAR['sped'] = 'speed'",
        "from memoranda_backend.text import stemming; stemming.LONGEST_TERM = 39",
        "from memoranda_backend.text import terms; terms.spelled_dates = lambda text, **_: text",
    ],
)
def test_another_way_of_making_terms_has_another_fingerprint(change: str) -> None:
    assert _fingerprint_with(change) != terms_fingerprint() == _fingerprint_with("")
