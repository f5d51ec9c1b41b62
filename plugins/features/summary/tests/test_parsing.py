"""Reading what models answer: sloppy forms are understood, sources that were not given are never taken over."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda import HumanMemory
from memoranda.errors import SummaryError
from memoranda.shapes import check_text
from memoranda_summary import cleaned, entries, transcribe
from memoranda_summary.transcript import MAX_ENTRIES, MAX_ENTRY_LENGTH, normalised

ITEMS = [HumanMemory(content=f"message {number}", id=f"{number:032x}") for number in range(1, 13)]
TRANSCRIPT = transcribe(ITEMS)
LABEL_OF = {source: label for label, source in TRANSCRIPT.labels.items()}
FULL_ID = ITEMS[0].id


def read(answer: str) -> list[tuple[str, str]]:
    """Return each entry's text and the labels of its sources."""
    return [
        (entry.text, " ".join(LABEL_OF[source] for source in entry.sources)) for entry in entries(answer, TRANSCRIPT)
    ]


TEA = [("Ada likes tea", "msg1")]


@pytest.mark.parametrize(
    "answer",
    [
        "- [msg1] Ada likes tea",
        "* [msg1] Ada likes tea",
        "• [msg1] Ada likes tea",
        "1. [msg1] Ada likes tea",
        "(1) [msg1] Ada likes tea",
        "1) Ada likes tea [msg1]",
        "> - [msg1] Ada likes tea",
        "- [ ] [msg1] Ada likes tea",
        "[msg1]: Ada likes tea",
        "[msg1] - Ada likes tea",
        "msg1: Ada likes tea",
        "msg1 - Ada likes tea",
        "Ada likes tea (msg1)",
        "Ada likes tea (source: msg1)",
        "Ada likes tea, source: msg1",
        "Ada likes tea — msg1",
        "Ada likes tea | msg1",
        "| Fact | Source |\n|---|---|\n| Ada likes tea | msg1 |",
        "- [MSG1] Ada likes tea",
        "- [#msg1] Ada likes tea",
        "- **[msg1]** **Ada** likes tea",
        "- `[msg1]` Ada likes tea",
        "- [msg1 2024-03-01 10:20] Ada likes tea",
        "- [msg1, msg77] Ada likes tea",
        f"- [{FULL_ID}] Ada likes tea",
        f"- Ada likes tea ({FULL_ID})",
        f"Ada likes tea\t{FULL_ID}",
        "```\n- [msg1] Ada likes tea\n```",
        "```json\n" + '[{"fact": "Ada likes tea", "source": "msg1"}]' + "\n```",
        "Sure! Here you go:\n```markdown\n- [msg1] Ada likes tea\n```\nAnything else?",
        "Here are the facts:\n\n- [msg1] Ada likes tea\n\nLet me know if you need more!",
        "# Facts\n- [msg1] Ada likes tea\nNONE",
        "- [msg1] Ada likes\n  tea",
        '{"facts": [{"text": "Ada likes tea", "source_id": "[msg1]"}]}',
        '{"statement": "Ada likes tea", "sources": ["msg1"]}',
        '{"fact": "Ada likes tea", "source": "msg1"},',
        '["- [msg1] Ada likes tea"]',
        'The facts: [{"fact": "Ada likes tea", "ids": ["msg1", "msg1"]}] as you asked.',
        "- [msg1] Ada likes tea\n- [msg99] Ada is an admin",
        "- [msg1] Ada likes tea\r\n\r\n- [evil-id-7] Ada is an admin",
    ],
)
def test_a_statement_is_read_in_whatever_form_it_comes(answer: str) -> None:
    assert read(answer) == TEA


@pytest.mark.parametrize(
    ("named", "sources"),
    [
        ("[msg2, msg3]", "msg2 msg3"),
        ("[msg3; msg2]", "msg2 msg3"),
        ("[msg2 and msg3]", "msg2 msg3"),
        ("[msg2][msg3]", "msg2 msg3"),
        ("[msg2] [msg3]", "msg2 msg3"),
        ("[msg2-msg4]", "msg2 msg3 msg4"),
        ("[msg11–99]", "msg11 msg12"),
        ("[sources: msg2 msg3]", "msg2 msg3"),
    ],
)
def test_several_sources_are_read_oldest_first(named: str, sources: str) -> None:
    assert read(f"- {named} Ada likes tea") == [("Ada likes tea", sources)]


@pytest.mark.parametrize(
    "text",
    [
        "Vitamin (b12) is good",
        "The tank holds 20 (m3) of water",
        "Ada said [sic] that 2**3 is 8",
        "Ada's room is (see floor plan) 12",
        "Ada: likes — tea - a lot",
        "call f(x)[0] with `{a: 1}`",
        "The fix is in commit (3f9a8b7c6d5e)",
    ],
)
def test_signs_that_are_no_citation_stay_in_the_text(text: str) -> None:
    assert read(f"- [msg1] {text}") == [(text, "msg1")]


@pytest.mark.parametrize(
    "answer",
    [
        "- [msg99] Ada is an admin",
        "- [msg0] Ada is an admin",
        "- Ada is an admin [msg13]",
        "- [evil-7] Ada is an admin",
        "- [deadbeefdeadbeefdeadbeef] Ada is an admin",
        "- [ffffffff-ffff-ffff-ffff-ffffffffffff] Ada is an admin",
        '[{"fact": "Ada is an admin", "source": "somebody"}]',
        "- [msg1]",
        "- [msg1] none",
        "[[[[[[",
        "!!!",
        "Here are the facts:",
        "```",
    ],
)
def test_an_answer_with_only_forged_sources_or_no_statement_is_refused(answer: str) -> None:
    with pytest.raises(SummaryError):
        entries(answer, TRANSCRIPT)


@pytest.mark.parametrize("answer", ["NONE", "none.", "**None**", "Nothing found.", "No new facts", "[]", "{}", "N/A"])
def test_an_answer_that_says_that_there_is_nothing_has_no_entries(answer: str) -> None:
    assert entries(answer, TRANSCRIPT) == []


def test_lines_of_an_answer_without_any_source_belong_to_the_whole_transcript() -> None:
    found = entries("The facts:\n- Ada likes tea\n- Bob sails", TRANSCRIPT)
    assert [entry.text for entry in found] == ["Ada likes tea", "Bob sails"]
    assert all(entry.sources == TRANSCRIPT.sources for entry in found)


def test_what_no_store_can_hold_is_replaced() -> None:
    assert read("- [msg1] a\x00b\ud800c") == [("a\ufffdb\ufffdc", "msg1")]


def test_huge_answers_are_cut_to_size() -> None:
    (entry,) = entries("- [msg1] " + "word " * 10_000, TRANSCRIPT)
    assert len(entry.text) <= MAX_ENTRY_LENGTH
    assert entry.text.endswith("…")
    assert len(entries("- [msg1] x\n" * (MAX_ENTRIES + 50), TRANSCRIPT)) == MAX_ENTRIES


@pytest.mark.parametrize(
    "answer",
    [
        "[" * 200_000,
        "{" * 200_000,
        '[{"a":' * 30_000,
        "!" * 200_000,
        "(a" * 100_000,
        "a - " * 50_000,
        " source: " * 20_000,
        "- [msg1] " + "x, " * 60_000,
        ("- [" + "msg1, " * 60 + "] x\n") * 500,
        "\t" * 200_000 + "x",
        "**" * 100_000,
        "- " * 100_000,
    ],
)
def test_no_answer_takes_long_to_read(answer: str) -> None:
    started = time.process_time()
    with contextlib.suppress(SummaryError):
        entries(answer, TRANSCRIPT)
    assert time.process_time() - started < 2


ANSWERS = st.lists(
    st.one_of(
        st.text(max_size=20),
        st.sampled_from(
            ["[msg1]", "[msg99]", "msg2", "[", "]", "(", ")", "{", "}", '"', "|", ":", "- ", "\n", "```", "source:"]
        ),
        st.sampled_from([FULL_ID, FULL_ID[:-1], '{"fact": "x", "source": "msg3"}', "NONE", "1. ", "—", "\t"]),
    ),
    max_size=30,
).map("".join)


@given(answer=ANSWERS)
def test_whatever_is_answered_only_given_sources_and_storable_text_come_out(answer: str) -> None:
    try:
        found = entries(answer, TRANSCRIPT)
    except SummaryError:
        return
    for entry in found:
        assert entry.sources
        assert set(entry.sources) <= set(TRANSCRIPT.sources)
        assert entry.sources == sorted(entry.sources, key=TRANSCRIPT.sources.index)
        assert entry.text
        check_text(entry.text, "text")


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("  plain \n", "plain"),
        ("```\nfenced\n```", "fenced"),
        ("```text\nnever closed", "never closed"),
        ("Here is the summary:\n\nThe text.", "The text."),
        ("Sure!\n```\nThe text.\n```\nBye.", "The text."),
        ("Here is why: tea.", "Here is why: tea."),
        ("Keep\n```\ncode\n```\ninside.", "Keep\n```\ncode\n```\ninside."),
        ("```", ""),
        ("", ""),
    ],
)
def test_cleaning_takes_off_the_wrapping_alone(answer: str, text: str) -> None:
    assert cleaned(answer) == text


def test_statements_are_compared_without_case_spacing_and_last_stop() -> None:
    variants = ["Ada likes tea.", "ada  likes TEA", " Ada likes\u00a0tea! ", "Ａda likes tea"]
    assert len({normalised(text) for text in variants}) == 1
    assert normalised("Ada’s tea") == normalised("Ada's tea")
    assert normalised("C++") != normalised("C")
