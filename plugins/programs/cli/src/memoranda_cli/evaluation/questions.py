"""Questions whose right items are known: from JSON Lines, from LoCoMo's conversations, or made of a store's own words.

A line is ``{"question": …, "ids": […]}`` or ``{"question": …, "texts": […]}``, with the scope to search in beside it
(``user_id``, ``session_id``, ``task_id``, ``agent_id``, ``namespace``). A first line ``{"memoranda": "questions", …}``
is a header. LoCoMo's files hold conversations; their turns become the items that are searched.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import Any

from memoranda.errors import InputError
from memoranda.items import SCOPE_FIELDS, HumanMemory, MemoryItem, MemoryMetadata
from memoranda.shapes import check_text
from memoranda.store import Store
from memoranda_backend.ranking import conversation_key, query_language, query_words
from memoranda_commands.files import MARK, parsed

FORMAT = 1
HEADER = "questions"
"""What the first line of a file of questions is marked with."""

RIGHT_FIELDS = ("ids", "texts")
FIELDS = ("question", *RIGHT_FIELDS, *SCOPE_FIELDS, "namespace")

UNANSWERED = 5
"""LoCoMo's category of questions that have no answer in the conversation."""

MOST_LISTED = 20
"""How many mistakes an error lists."""

_LOCOMO_TIME = "%I:%M %p on %d %B, %Y"
_FIRST_TIME = datetime(2026, 1, 1, tzinfo=UTC)
_TURN = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class EvalQuestion:
    """A question, its right items by id or by text, and the scope to search in.

    Each text stands for one right item: any item with this content will do or, if there is none, any that contains it.
    ``line`` is its line in the file, or its number in a LoCoMo file.
    """

    question: str = field(repr=False)
    ids: tuple[str, ...] = ()
    texts: tuple[str, ...] = field(default=(), repr=False)
    metadata: MemoryMetadata | None = None
    line: int = 0


@dataclass(frozen=True, slots=True)
class QuestionFile:
    """The questions of a file. ``items`` are the turns of its conversations, if it is in LoCoMo's format."""

    questions: list[EvalQuestion]
    items: list[MemoryItem] = field(default_factory=list, repr=False)
    left_out: int = 0
    """How many questions of a LoCoMo file have no answer, or name no turn as evidence."""
    note: str = ""
    """What the header says about the questions."""


def read_questions(path: Path, *, default: MemoryMetadata | None = None, prefix: str = "") -> QuestionFile:
    """Return the questions of a JSON Lines file, or of a file in LoCoMo's format.

    ``default`` is the scope of lines that name none. ``prefix`` begins the user and item ids of LoCoMo's conversations,
    to keep them apart from what a store holds. Raises InputError that lists every line with a mistake and its
    cause, and for a file without questions.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path.name} is not UTF-8 text (byte {error.start + 1:,}).", field="file") from error
    samples = _locomo_samples(text)
    found = _from_lines(text, path.name, default) if samples is None else _from_locomo(samples, path.name, prefix)
    if not found.questions:
        raise InputError(f"{path.name} has no questions to ask.", field="file")
    return found


def question_lines(questions: Iterable[EvalQuestion], note: str = "") -> Iterator[str]:
    """Yield the lines of a file of questions: a header with a note, then a question a line."""
    yield json.dumps({MARK: HEADER, "format": FORMAT, "note": note}, ensure_ascii=False) + "\n"
    for question in questions:
        line: dict[str, Any] = {"question": question.question}
        line |= {name: list(getattr(question, name)) for name in RIGHT_FIELDS if getattr(question, name)}
        for name in (*SCOPE_FIELDS, "namespace"):
            if value := getattr(question.metadata, name, None):
                line[name] = value
        yield json.dumps(line, ensure_ascii=False) + "\n"


def _from_lines(text: str, name: str, default: MemoryMetadata | None) -> QuestionFile:
    questions: list[EvalQuestion] = []
    problems: list[str] = []
    note = ""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            value = parsed(line, name, number)
            if isinstance(value, dict) and MARK in value:
                note = _header_note(value, number)
            else:
                questions.append(_question(value, number, default))
        except _MistakeError as mistake:
            problems.append(f"line {number}: {mistake}")
        except InputError as error:
            problems.append(str(error).removeprefix(f"{name}, "))
    _raise(problems, name)
    return QuestionFile(questions, note=note)


class _MistakeError(Exception):
    """What is wrong with a line."""


def _raise(problems: list[str], name: str) -> None:
    if problems:
        listed = "\n".join(f"  {problem}" for problem in problems[:MOST_LISTED])
        more = len(problems) - MOST_LISTED
        further = f"\n  and {more:,} more" if more > 0 else ""
        what = "a mistake" if len(problems) == 1 else f"{len(problems):,} mistakes"
        raise InputError(f"{name} has {what}:\n{listed}{further}", field="file")


def _header_note(header: Mapping[str, Any], number: int) -> str:
    if header[MARK] != HEADER:
        raise _MistakeError(f"this is a file of memories, not of questions: a question needs {_listed('question')}.")
    if number != 1:
        raise _MistakeError("a header stands in the first line.")
    if header.get("format") != FORMAT:
        raise _MistakeError(f"this release reads format {FORMAT}. Upgrade memoranda.")
    return str(header.get("note") or "")


def _question(value: Any, number: int, default: MemoryMetadata | None) -> EvalQuestion:
    if not isinstance(value, dict):
        raise _MistakeError("a question is a JSON object.")
    for key in value:
        if key not in FIELDS:
            alike = get_close_matches(key, FIELDS, 1, cutoff=0.5)
            meant = f" Did you mean {alike[0]!r}?" if alike else ""
            known = key if len(key) <= 40 else f"{key[:40]}…"
            raise _MistakeError(f"there is no field {known!r}.{meant} The fields are {_listed(*FIELDS)}.")
    if not _is_text(value.get("question")):
        raise _MistakeError("'question' must be a text that is not empty.")
    given = [name for name in RIGHT_FIELDS if name in value]
    if len(given) != 1:
        raise _MistakeError(f"name the right items by 'ids' or by 'texts'{', not both' if given else ''}.")
    right = value[given[0]]
    if not isinstance(right, list) or not right or not all(map(_is_text, right)):
        raise _MistakeError(f"{given[0]!r} must be a list of texts, with at least one, and none of them empty.")
    return EvalQuestion(
        value["question"],
        metadata=_scope(value) or default,
        line=number,
        **{given[0]: tuple(dict.fromkeys(right))},
    )


def _scope(value: Mapping[str, Any]) -> MemoryMetadata | None:
    """Return the scope that a line names; a field that is null names nothing."""
    named = {name: value[name] for name in (*SCOPE_FIELDS, "namespace") if value.get(name) is not None}
    for name, given in named.items():
        if name == "namespace":
            if not isinstance(given, list) or not given or not all(map(_is_text, given)):
                raise _MistakeError('\'namespace\' must be a list of texts, such as ["users", "ada"].')
        elif not _is_text(given):
            raise _MistakeError(f"{name!r} must be a text that is not empty.")
    return MemoryMetadata(**named) if named else None


def _is_text(value: Any) -> bool:
    try:
        return bool(check_text(value, "text").strip())
    except InputError:
        return False


def _listed(*names: str) -> str:
    return ", ".join(repr(name) for name in names)


def _locomo_samples(text: str) -> list[Any] | None:
    """Return the conversations of a file in LoCoMo's format, or in its flat form; None for any other file."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(document, list):
        return document
    flat = document.get("conversations") if isinstance(document, dict) else None
    return flat if isinstance(flat, list) else None


def _from_locomo(samples: list[Any], name: str, prefix: str) -> QuestionFile:
    found = QuestionFile([])
    problems: list[str] = []
    left_out = 0
    for number, sample in enumerate(samples, 1):
        try:
            flat = _flat(sample, prefix)
            items = list(_turns(flat))
            asked = [*_asked(flat, len(found.questions))]
        except _MistakeError as mistake:
            problems.append(f"conversation {number}: {mistake}")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            problems.append(f"conversation {number}: this is not LoCoMo's format ({_reason(error)}).")
        else:
            found.items.extend(items)
            found.questions.extend(asked)
            left_out += len(flat["questions"]) - len(asked)
    _raise(problems, name)
    return QuestionFile(found.questions, found.items, left_out)


def _reason(error: Exception) -> str:
    return f"there is no {error.args[0]!r}" if isinstance(error, KeyError) else type(error).__name__


def _flat(sample: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return a conversation in flat form: its turns one after the other, and its questions."""
    if not isinstance(sample, dict) or not {"conversation", "turns"} & sample.keys():
        raise _MistakeError(
            "there is no 'conversation'. Questions of your own stand in a file with one JSON object a line."
        )
    if "turns" in sample:
        return {"id": f"{prefix}{sample['id']}", "turns": sample["turns"], "questions": sample["questions"]}
    talk = sample["conversation"]
    numbers = sorted(int(key[8:]) for key in talk if re.fullmatch(r"session_\d+", key))
    turns = [
        {**turn, "id": turn["dia_id"], "session": number, "date": talk[f"session_{number}_date_time"]}
        for number in numbers
        for turn in talk[f"session_{number}"]
    ]
    return {"id": f"{prefix}{sample['sample_id']}", "turns": turns, "questions": sample["qa"]}


def _turns(flat: Mapping[str, Any]) -> Iterator[MemoryItem]:
    """Yield an item for each turn: half a minute after the one before, in the scope of its conversation."""
    turn_of_session: dict[Any, int] = {}
    for turn in flat["turns"]:
        session = turn["session"]
        position = turn_of_session[session] = turn_of_session.get(session, -1) + 1
        started = datetime.strptime(turn["date"], _LOCOMO_TIME).replace(tzinfo=UTC) if "date" in turn else _FIRST_TIME
        photo = turn.get("blip_caption") or turn.get("photo")
        yield HumanMemory(
            id=f"{flat['id']}/{turn['id']}",
            content=f"{turn['text']} {photo}" if photo else turn["text"],
            name=turn["speaker"],
            created_at=(started + position * _TURN).isoformat(),
            metadata=MemoryMetadata(user_id=flat["id"], session_id=f"{flat['id']}/{session}"),
        )


def _asked(flat: Mapping[str, Any], before: int) -> Iterator[EvalQuestion]:
    """Yield the questions that have an answer and evidence. Several turns may stand in one text of the evidence."""
    for entry in flat["questions"]:
        named = [turn for text in entry.get("evidence") or () for turn in re.split(r"[;,\s]+", text) if turn]
        if entry.get("category") != UNANSWERED and named:
            before += 1
            ids = tuple(dict.fromkeys(f"{flat['id']}/{turn}" for turn in named))
            yield EvalQuestion(entry["question"], ids, metadata=MemoryMetadata(user_id=flat["id"]), line=before)


PROXY = (
    "A proxy, made without a model: each question is an item with its rarest words removed, and words of the turns "
    "around it added. It flatters word search, since it never says a thing in other words."
)
"""What a file of made questions and the command say of it."""

FEWEST_WORDS = 5
"""An item with fewer words that say something cannot be asked for."""

REMOVED = 1 / 3
"""The share of an item's words that its question never has: the rarest, which would give it away."""

KEPT, DRAWN_FROM = 3, 6
"""How many words of the item its question has, and from how many of the rarest left they are drawn."""


async def make_questions(
    store: Store, count: int = 50, *, metadata: MemoryMetadata | None = None, seed: int = 0
) -> list[EvalQuestion]:
    """Return up to ``count`` questions about items of people and models, in their order; the same for the same seed.

    Each question is searched in what ``metadata`` names, within the user of its item. Items that ask something
    themselves, say very little, or say the same as another are left out. Raises InputError if no item is left.
    """
    wanted = [
        item async for item in store.scan(metadata=metadata, archived=None) if item.memory_type in ("human", "ai")
    ]
    items = sorted(wanted, key=lambda item: (item.created_at, item.id))
    words = {item.id: content_words(item.content) for item in items}
    frequencies: dict[str | None, Counter[str]] = defaultdict(Counter)
    for item in items:
        frequencies[item.metadata.user_id].update(words[item.id].keys())
    said = Counter(item.content for item in items)
    suited = [
        item
        for item in items
        if len(words[item.id]) >= FEWEST_WORDS
        and said[item.content] == 1
        and not item.content.rstrip().endswith(("?", "？"))
    ]
    if not suited:
        raise InputError(
            f"None of the {len(items):,} items is suited: a question needs an item that is no question itself and has "
            f"at least {FEWEST_WORDS} words that say something.",
            field="metadata",
        )
    drawn = random.Random(seed)
    chosen = sorted(drawn.sample(range(len(suited)), min(count, len(suited))))
    around = _neighbours(items)
    made = []
    for position in chosen:
        item = suited[position]
        near = [words[other] for other in around[item.id]]
        text = _made_question(item, words[item.id], near, frequencies[item.metadata.user_id], drawn)
        made.append(EvalQuestion(text, (item.id,), metadata=_asked_in(item, metadata)))
    return made


def content_words(text: str) -> dict[str, str]:
    """Return the words of a text that say something by their terms, in their order; stopwords are left out."""
    return {term: words[0] for term, words in query_words(text, query_language(text)).items()}


def _neighbours(items: Iterable[MemoryItem]) -> dict[str, list[str]]:
    conversations: dict[object, list[MemoryItem]] = defaultdict(list)
    for item in items:
        conversations[conversation_key(item)].append(item)
    found: dict[str, list[str]] = defaultdict(list)
    for turns in conversations.values():
        for before, after in pairwise(turns):
            found[before.id].append(after.id)
            found[after.id].append(before.id)
    return found


def _made_question(
    item: MemoryItem,
    own: dict[str, str],
    near: Sequence[dict[str, str]],
    frequency: Counter[str],
    drawn: random.Random,
) -> str:
    rarest_first = sorted(own, key=lambda term: (frequency[term], term))
    left = rarest_first[round(REMOVED * len(own)) :][:DRAWN_FROM]
    kept = set(drawn.sample(left, KEPT))
    asked = [own[term] for term in own if term in kept]
    for words in near:
        others = sorted(term for term in words if term not in own)
        if others:
            asked.append(words[drawn.choice(others)])
    return " ".join([item.name, *asked] if item.name else asked)


def _asked_in(item: MemoryItem, metadata: MemoryMetadata | None) -> MemoryMetadata | None:
    """Return where a question about an item is asked: in what was named, and there among what its user said."""
    user_id = item.metadata.user_id
    if user_id is None:
        return metadata
    return (metadata or MemoryMetadata()).model_copy(update={"user_id": user_id})
