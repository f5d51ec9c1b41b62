"""The forms of a word are found without stemming the whole vocabulary, and none of them is missed."""

from __future__ import annotations

from itertools import count

import pytest

from memoranda_backend.text.stemming import WordForms, having_any, stemmer_of
from memoranda_backend.text.terms import fold_words

WORDS = {
    "english": "go goes going gone went walk walks walked walking happily happiness child children relational",
    "german": "Haus Häuser Häusern Hauses Apfel Äpfel aepfel laufen läuft gelaufen Nachbar Nachbarn quer Treue",
    "dutch": "huis huizen lopen loopt gelopen buur buren fiets fietsen",
    "spanish": "casa casas vecino vecinos vecinas comprar comprado compraron jugaban jugar",
    "french": "maison maisons voisin voisins voisine acheter acheté achetées jouer jouaient",
    "italian": "casa case vicino vicini comprare comprato giocavano giocare",
    "portuguese": "casa casas vizinho vizinhos comprar comprou jogavam jogar",
    "swedish": "hus husen huset granne grannar köpa köpte cykel cyklar",
    "finnish": "talo talot talossa talosta naapuri naapurin naapureiden ostaa ostin",
    "turkish": "ev evler evleri komşu komşular komşuların kitap kitabı",
    "russian": "дом дома домов сосед соседа соседи купить купил купила велосипед велосипеды",
    "arabic": "بيت البيت والبيت بيوت كتاب الكتاب كتابي وكتاب مدينة المدينة",
    "tamil": "வீடு வீடுகள் வீட்டில் புத்தகம் புத்தகங்கள்",
}


@pytest.mark.parametrize("language", WORDS)
def test_the_words_of_a_stem_are_those_that_stemming_all_of_them_finds(language: str) -> None:
    stem = stemmer_of(language)
    vocabulary = dict(zip(dict.fromkeys(fold_words(" ".join(WORDS.values()))), count(), strict=False))
    forms = WordForms()
    for word in fold_words(WORDS[language]):
        expected = {number for other, number in vocabulary.items() if stem(other) == stem(word)}
        assert set(forms.of(vocabulary, stem(word), language, (word,))) == expected, word


def test_words_that_come_later_are_found() -> None:
    forms, vocabulary = WordForms(), {"walk": 0}
    assert forms.of(vocabulary, "walk", "english") == [0]
    vocabulary["walked"] = 1
    assert forms.of(vocabulary, "walk", "english") == [0, 1]


@pytest.mark.parametrize("language", WORDS)
def test_words_that_come_one_by_one_are_found_as_if_all_had_been_there(language: str) -> None:
    stem, asked = stemmer_of(language), fold_words(WORDS[language])
    forms, vocabulary = WordForms(), dict[str, int]()
    for word in dict.fromkeys(fold_words(" ".join(WORDS.values()))):
        vocabulary[word] = len(vocabulary)
        for each in asked:
            at_once = WordForms().of(vocabulary, stem(each), language, (each,))
            assert set(forms.of(vocabulary, stem(each), language, (each,))) == set(at_once), (word, each)


@pytest.mark.parametrize("language", WORDS)
def test_few_words_and_many_have_the_same_stems(language: str) -> None:
    """A few words are stemmed one by one, many are looked for by how they begin."""
    words = list(dict.fromkeys(fold_words(" ".join(WORDS.values()))))
    stems = {language: {stemmer_of(language)(word) for word in fold_words(WORDS[language])[::2]}}
    one_by_one = [having_any([word], stems)[0] for word in words]
    assert having_any(words, stems) == one_by_one
    assert any(one_by_one)
