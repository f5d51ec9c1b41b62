"""What a store remembers for a prompt: what the user told, whatever is asked, and what answers the question.

Words of an item are worth showing or not, and of a long text only a part matters. That is found out once: prompt after
prompt looks at the same items. No text is kept, only numbers that stand for it, so nothing here outlives the items of a
store that forgets them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

from memoranda.items import MemoryItem
from memoranda.store import RankedItem, Recalled, Store
from memoranda.tokens import CHARACTERS_OF_A_TOKEN
from memoranda.trust import Trust, is_someone_elses
from memoranda_backend.text import (
    MANY_TOLD,
    MUCH_TOLD,
    asks_about_self,
    fold_words,
    has_statement,
    is_passing_remark,
    is_request,
    is_small_talk,
    is_unspaced,
    query_terms,
    statements,
)
from memoranda_context.budget import Counts
from memoranda_context.fencing import Admission

_MOST_KEPT = 1 << 15

_MOST_WORDS_OF_CHATTER = 4
"""An answer of more words is more than politeness."""

_TELLS = re.compile(r"\d|(?<=\S )[A-ZÀ-ÞА-Я]")
"""A figure, or a name after the first word."""

_HEAD = 120
"""How many characters of a beginning say what a memory is about."""

_SENTENCE_END = re.compile(r"[.!?。！？؟…](?=\s|$)|\n")
_GAP = " … "


class Gist(NamedTuple):
    """What decides whether an item is worth showing, whatever is asked."""

    words: int
    """The same for items of one speaker that say the same."""
    is_small_talk: bool
    """True if it greets, thanks or agrees, and of a person's words also if they only comment on the moment."""
    says_something: bool
    """False for an old question or an empty phrase: it is of use only beside what was said around it."""


_gists: dict[int, Gist] = {}


def gists_of(items: Iterable[MemoryItem]) -> list[Gist]:
    """Return the gist of each item. Several threads may ask."""
    gists = []
    for item in items:
        key = hash((item.memory_type, item.name, item.content))
        gist = _gists.get(key)
        if gist is None:
            if len(_gists) >= _MOST_KEPT:
                _gists.clear()
            gist = _gists[key] = _gist(item)
        gists.append(gist)
    return gists


def words_of(items: Iterable[MemoryItem]) -> set[int]:
    """Return what items say: :attr:`Gist.words` of each."""
    return {gist.words for gist in gists_of(items)}


def _gist(item: MemoryItem) -> Gist:
    content = item.content
    words = fold_words(content)
    small_talk = is_small_talk(content) or (item.memory_type == "human" and is_passing_remark(content))
    if item.memory_type == "human" and item.name is None:
        says_something = not small_talk and has_statement(content)
    elif item.memory_type == "ai":
        says_something = not is_chatter(content)
    else:
        says_something = len(words) > 1 or item.memory_type != "human"
    return Gist(hash((item.name or "", *words)), small_talk, says_something)


def is_chatter(answer: str) -> bool:
    """Return True for an answer that says something only to those who heard the question: "Thanks for telling me.".

    It has few words, and neither a name nor a figure.
    """
    words = fold_words(answer)
    if not words or any(map(is_unspaced, words)):
        return not words
    return len(words) <= _MOST_WORDS_OF_CHATTER and not _TELLS.search(answer)


def excerpt(item: MemoryItem, passage: str, most: int) -> MemoryItem:
    """Return an item with at most about so many characters of its content: its beginning, "…", and a passage of it."""
    content = item.content
    if len(content) <= most:
        return item
    head = _cut(content, max(most - len(passage), _HEAD) if passage else most)
    rest = passage.strip()
    if not rest or content.find(rest) < len(head):
        shown = _cut(content, most)
    else:
        shown = f"{head}{_GAP}{_cut(rest, max(most - len(head), _HEAD))}"
    return item.model_copy(update={"content": f"{shown} … (memory {item.id})"})


def _cut(text: str, most: int) -> str:
    """Return the beginning of a text: whole sentences if one ends in time, else whole words."""
    if len(text) <= most:
        return text
    ends = [found.end() for found in _SENTENCE_END.finditer(text, most // 2, most)]
    if ends:
        return text[: ends[-1]].rstrip()
    space = text.rfind(" ", most // 2, most)
    return text[: space if space > 0 else most].rstrip()


_TELLING_TYPES = ("human", "item")
"""The types of items that people write, or that are written down for them."""

_WORDS_OF_A_STATEMENT = 4
_TOKENS_OF_A_STATEMENT = 8
_TOKENS_OF_A_MEMORY = 16
"""How many tokens the shortest usual ones take: so many are read as could have room."""

_TOKENS_OF_A_SPEAKER = 3

_MOST_READ = 240
"""How many memories are read at the most: more are hardly better, and each costs time."""

_USUALLY_LONGER = 3
"""How many times as long as the shortest usual one a statement usually is: no more are read if these fill the room."""

_LONG_ONES = 1.5
"""How many times as long as any others the most telling ones may be."""

_NEARLY_FULL = 32
"""A room of which less than one part in so many is left is full."""

_LEAST_TELLING = 0.12
"""What a statement must score to be worth knowing whatever is asked."""

_PART_OF_A_LIFE = 8
"""Where the last statement that could have room still tells much, there is far more to know than has room, and it is
better to look for what the question needs: only one part in so many of the room is given to what was told."""

_BESIDE_THE_BEST = 0.15
"""The part of the best one's score that a memory must have to be worth its tokens."""

_WORTH_SAYING_UNASKED = 0.5
"""What a memory must score where nothing asks for it."""

DOES_NOT_FIT = "it does not fit the token budget"
REPEATED = "another one says the same"
TOO_LITTLE = "it has too little to do with the question to be worth its tokens"
EMPTY = "it is a question or a phrase that tells nothing by itself"

_MOST_OF_THE_ROOM = 5
"""One memory has at most one part in so many of the room; a longer one is shown in part."""
_SHORT = 400
"""A memory of so many characters is never cut."""


@dataclass(frozen=True, slots=True)
class Memories:
    """What is shown for a question, best first, what it was chosen from, and which words found nothing."""

    shown: list[MemoryItem] = field(default_factory=list)
    considered: list[MemoryItem] = field(default_factory=list)
    left_out: list[tuple[MemoryItem, str]] = field(default_factory=list)
    """What is not shown, best first, each with the reason."""
    unsupported: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Remembering:
    """Reads the memories of one prompt."""

    handle: Store
    admission: Admission
    count: Counts
    wanted: dict[str, Any]
    originals: dict[str, MemoryItem] = field(default_factory=dict)
    """What was told and is shown, as the store gave it, by id."""
    sizes: list[int] = field(default_factory=list)
    """The tokens of the statements that were read: those of memories are much the same."""

    async def told(
        self, room: int, said: Sequence[MemoryItem], *, places: Sequence[dict[str, Any]] = ({},), is_cut: bool = False
    ) -> list[MemoryItem]:
        """Return what is worth knowing whatever is asked, in the order of time.

        All that the user said in some places, each given as filters of a search, if it fits; else the most telling
        statements that do. What was ``said`` in the conversation is not repeated; ``is_cut`` says that it takes all of
        its room.
        """
        limit = min(room // _TOKENS_OF_A_STATEMENT, MANY_TOLD)
        if limit <= 0:
            return []
        said_already = words_of(said)
        kept, is_enough = await self._told_of(
            max(limit // _USUALLY_LONGER, 1), limit, room, said_already, places, is_cut
        )
        if not is_enough:
            kept, _ = await self._told_of(limit, limit, room, said_already, places, is_cut)
        self.originals.update({item.id: item for item, _ in kept})
        return sorted([shown for _, shown in kept], key=attrgetter("created_at"))

    def may_tell_more(self, room: int) -> bool:
        """Return True unless :meth:`told`, with so much room, found that there is nothing to tell."""
        return bool(self.sizes) or room < _TOKENS_OF_A_STATEMENT

    async def _told_of(
        self,
        number: int,
        most: int,
        room: int,
        said: Collection[int],
        places: Sequence[dict[str, Any]],
        is_cut: bool,
    ) -> tuple[list[tuple[MemoryItem, MemoryItem]], bool]:
        """Return what has room among so many statements, and whether more of the ``most`` would change little."""
        memories: list[RankedItem] = []
        is_all = True
        for place in places:
            wanted = self.wanted | place
            wanted["min_trust"] = max(wanted.get("min_trust", Trust.AGENT), Trust.AGENT)
            found = await self.handle.own.recall(
                "", limit=number, memory_type=_TELLING_TYPES, verdict=True, shared=True, **wanted
            )
            memories += found.memories
            is_all = is_all and len(found) < number
        memories.sort(key=attrgetter("score"), reverse=True)
        self.sizes[:] = self.count.of_each([each.item for each in memories])
        is_much = not is_cut and _is_much(memories, most)
        within = room // _PART_OF_A_LIFE if is_much else room
        own = [each for each in memories if not is_someone_elses(each.item)]
        kept, left = self._told_within(own, within, said, is_all=is_all)
        no_more = bool(memories) and memories[-1].score < _LEAST_TELLING and sum(self.sizes) > within
        return kept, is_all or no_more or _is_full(left, room)

    def _told_within(
        self, found: Sequence[RankedItem], room: int, said: Collection[int], *, is_all: bool
    ) -> tuple[list[tuple[MemoryItem, MemoryItem]], int]:
        """Return what has room, each as it was read and as it is shown, and how much room is left."""
        gists = gists_of([each.item for each in found])
        telling = [(each.item, gist) for each, gist in zip(found, gists, strict=True) if each.score >= _LEAST_TELLING]
        if is_all:
            everything = [(each.item, gist) for each, gist in zip(found, gists, strict=True) if not gist.is_small_talk]
            if sum(self.count.of_each([item for item, _ in everything])) + 2 * len(everything) <= room:
                telling = everything
        most, seen = _most_characters(room), set(said)
        shown = [item if len(item.content) <= _SHORT else _statements_of(item, most) for item, _ in telling]
        kept: list[tuple[MemoryItem, MemoryItem]] = []
        for (item, gist), statement, tokens in zip(telling, shown, self.count.of_each(shown), strict=True):
            cost = tokens + 1
            if cost <= room and gist.words not in seen:
                kept.append((item, statement))
                seen.add(gist.words)
                room -= cost
        return kept, room

    async def found(
        self,
        question: str,
        room: int,
        few: int,
        *,
        is_cut: bool,
        window: Sequence[MemoryItem],
        shown: Sequence[MemoryItem],
        limit: int | None = None,
        min_score: float | None = None,
    ) -> Memories:
        """Return the memories for a question that are worth their tokens, best first.

        ``room`` is what they may take, ``few`` what is enough where nothing asks for them. ``window`` is the
        conversation beside them, ``is_cut`` says that it is longer than its room, and ``shown`` is all that is shown.
        """
        already = {item.id for item in shown}
        most = min(room // _TOKENS_OF_A_MEMORY + len(already), _MOST_READ) if limit is None else limit
        if most <= 0 or is_small_talk(question):
            return Memories()
        last: list[Recalled] = []

        async def read(number: int) -> list[MemoryItem]:
            floor = 0.0 if min_score is None else min_score
            options: dict[str, Any] = {"limit": number, "min_score": floor, "window": window, **self.wanted}
            last[:] = [await self.handle.recall(question, verdict=True, shared=True, **options)]
            return [each.item for each in last[0].memories if each.item.id not in already]

        def chosen(admitted: list[MemoryItem]) -> tuple[Memories, bool]:
            recalled = last[0]
            asks_for_much = _asks_for_much(question, recalled, is_cut=is_cut)
            within = room if limit is not None or asks_for_much else min(room, few)
            ids = {item.id for item in admitted}
            ranked = [each for each in recalled.memories if each.item.id in ids]
            unasked = not asks_for_much and (is_cut or not is_request(question))
            memories = Memories(considered=admitted, unsupported=self._unsupported(question, recalled, asks_for_much))
            least = _WORTH_SAYING_UNASKED if unasked and limit is None else 0.0
            return memories, self._choose(memories, ranked, within, least, words_of(shown))

        number = min(self._usually_enough(room) + len(already), most) if limit is None else most
        memories, is_enough = chosen(await self.admission.enough(read, number))
        if number < most and not is_enough and len(last[0]) == number:
            memories, _ = chosen(await self.admission.enough(read, most))
        return memories

    def _usually_enough(self, room: int) -> int:
        """Return how many memories usually fill a room, by what was read before: the most telling are long ones."""
        usual = max(sum(self.sizes) // max(len(self.sizes), 1), _TOKENS_OF_A_MEMORY)
        return int(_LONG_ONES * room / usual) if self.sizes else room // _TOKENS_OF_A_MEMORY

    def _unsupported(self, question: str, recalled: Recalled, asks_for_much: bool) -> tuple[str, ...]:
        """Return the words that a prompt should say nothing is known about: those of a question alone."""
        if not asks_for_much or "?" not in question:
            return ()
        stated = {word for each in statements(question) for word in fold_words(each)}
        return tuple(word for word in recalled.unsupported if not stated.issuperset(fold_words(word)))

    def _choose(
        self, memories: Memories, ranked: Sequence[RankedItem], room: int, least: float, seen: set[int]
    ) -> bool:
        """Choose what is shown of the best, and note why the others are not; what was ``seen`` is said already.

        Returns True if more to choose from would change little.
        """
        least = max(least, _BESIDE_THE_BEST * ranked[0].score if ranked else 0.0)
        most, left = _most_characters(room), room
        gists = gists_of([each.item for each in ranked])
        as_shown = [
            each.item if len(each.item.content) <= most else excerpt(each.item, each.passage, most) for each in ranked
        ]
        for each, gist, shown, tokens in zip(ranked, gists, as_shown, self.count.of_each(as_shown), strict=True):
            item, cost = each.item, tokens + _TOKENS_OF_A_SPEAKER
            if each.score < least:
                memories.left_out.append((item, TOO_LITTLE))
            elif cost > left:
                memories.left_out.append((item, DOES_NOT_FIT))
            elif gist.words in seen:
                memories.left_out.append((item, REPEATED))
            elif not gist.says_something:
                memories.left_out.append((item, EMPTY))
            else:
                seen.add(gist.words)
                left -= cost
                memories.shown.append(shown)
        return _is_full(left, room) or (bool(ranked) and ranked[-1].score < least)


def _is_full(left: int, room: int) -> bool:
    """Return True if what is left of a room is hardly worth looking for what would fit."""
    return left < max(room // _NEARLY_FULL, _TOKENS_OF_A_STATEMENT)


def _is_much(told: Sequence[RankedItem], limit: int) -> bool:
    """Return True if even the last of as many statements as could have room tells much."""
    if not told:
        return False
    how_much = told[0].evidence
    return told[-1].score >= MUCH_TOLD if how_much is None else round(how_much * MANY_TOLD) >= limit


def _asks_for_much(question: str, recalled: Recalled, *, is_cut: bool) -> bool:
    """Return True if a question is worth all the room there is; a greeting, a sum or small talk is not.

    In a conversation that fills its room, most questions are about what was just said.
    """
    if recalled.verdict == "unknown" or not (is_request(question) or _is_a_topic(question, recalled)):
        return False
    if all(term[0].isdigit() for term in query_terms(question)):
        return False
    return not is_cut or asks_about_self(question)


def _statements_of(item: MemoryItem, most: int) -> MemoryItem:
    """Return what a long item tells, such as a task with a text to work on: the statements alone."""
    told = " ".join(" ".join(statements(item.content)).split())
    return excerpt(item.model_copy(update={"content": f"{told} …"}), "", most) if told else excerpt(item, "", most)


def _is_a_topic(question: str, recalled: Recalled) -> bool:
    """Return True for a few words that memories are about, such as "tea"; a statement is longer."""
    words = question.split()
    return recalled.verdict == "known" and len(words) < _WORDS_OF_A_STATEMENT and not is_small_talk(question)


def _most_characters(room: int) -> int:
    return max(_SHORT, CHARACTERS_OF_A_TOKEN * room // _MOST_OF_THE_ROOM)
