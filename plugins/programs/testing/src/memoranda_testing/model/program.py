"""Write a failure as a short program that an author can run, and what calls did as text, for such programs."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import math
from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from memoranda.items import BUILTIN_TYPES, SCOPE_FIELDS, MemoryItem, MemoryMetadata
from memoranda.store import Store
from memoranda_testing.event_loop import Stepped, cancel_this
from memoranda_testing.model.answers import Answer, Seen, SeenRank, seen
from memoranda_testing.model.player import Failure, scope_arguments
from memoranda_testing.model.recipe import recipe_of
from memoranda_testing.model.reference import AtMost
from memoranda_testing.model.steps import (
    Call,
    Cancelled,
    Copied,
    Many,
    ManyIds,
    Moved,
    RankedAfresh,
    Reopened,
    SeenOutside,
    Step,
    Together,
)

_LINE = 100
"""How many letters a line of calls at once may have."""


def written(value: Any) -> str:
    """Return a value as it is written in a program."""
    if isinstance(value, MemoryItem):
        return _item(value)
    if isinstance(value, MemoryMetadata):
        return _metadata(value)
    if isinstance(value, Many):
        return _many(value)
    if isinstance(value, ManyIds):
        return f'[f"{value.prefix}{{n:05}}" for n in range({value.start}, {value.start + value.count})]'
    if isinstance(value, datetime):
        return f"datetime.fromisoformat({value.isoformat()!r})"
    if isinstance(value, float) and math.isinf(value):
        return "math.inf"
    if isinstance(value, list):
        return f"[{', '.join(map(written, value))}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{written(key)}: {written(inner)}" for key, inner in value.items()) + "}"
    return repr(value)


def _item(item: MemoryItem) -> str:
    kind = BUILTIN_TYPES.get(item.memory_type, MemoryItem)
    values: dict[str, Any] = {"id": item.id, "content": item.content}
    if kind is MemoryItem:
        values["memory_type"] = item.memory_type
    if item.metadata != MemoryMetadata():
        values["metadata"] = item.metadata
    blank = kind(id="x", content="", created_at="0001-01-01", updated_at=item.created_at).__dict__
    for name, value in {**item.__dict__, **(item.model_extra or {})}.items():
        if name not in ("id", "content", "memory_type", "metadata") and repr(blank.get(name)) != repr(value):
            values[name] = str(value) if name == "status" else value
    return f"{kind.__name__}({', '.join(f'{name}={written(value)}' for name, value in values.items())})"


def _metadata(metadata: MemoryMetadata) -> str:
    parts = [f"{name}={getattr(metadata, name)!r}" for name in SCOPE_FIELDS if getattr(metadata, name) is not None]
    parts += [f"namespace={metadata.namespace!r}"] if metadata.namespace else []
    parts += [f"extra={metadata.extra!r}"] if metadata.extra else []
    return f"MemoryMetadata({', '.join(parts)})"


def _many(many: Many) -> str:
    parts = [repr(many.prefix), repr(many.count), _metadata(many.metadata)]
    blank = Many("", 0, many.metadata)
    parts += [
        f"{name}={getattr(many, name)!r}"
        for name in ("content", "own_session", "own_place", "version", "start", "varied")
        if getattr(many, name) != getattr(blank, name)
    ]
    return f"Many({', '.join(parts)}).items()"


def call_text(call: Call, stores: Sequence[str] = ("store", "second", "copy")) -> str:
    """Return a call as it is written in a program, without the await."""
    handle = stores[call.instance]
    if call.scope is not None:
        given = ", ".join(f"{name}={value!r}" for name, value in scope_arguments(call.scope).items())
        handle = f"{handle}.scoped({given})"
    arguments = ", ".join(f"{name}={written(value)}" for name, value in call.arguments.items())
    return f"{handle}.{call.method}({arguments})"


def _awaited(call: Call) -> str:
    text = call_text(call)
    return f"[each async for each in {text}]" if call.method in ("scan", "owners") else f"await {text}"


def step_lines(step: Step, errors: Sequence[str] = ()) -> list[str]:
    """Return a step as the lines of a program; ``errors`` are the names of those that it may raise."""
    if isinstance(step, Moved):
        return [*(["await store.sweep()"] if step.seconds < 0 else ()), f"clock.now += {step.seconds}"]
    if isinstance(step, Reopened):
        return [
            "await store.close()",
            "store = open_store()  # on the same data",
            "store.clock = clock",
            "await store.init()",
        ]
    if isinstance(step, SeenOutside):
        return ["found = await outside.look(store.clock())"]
    if isinstance(step, Copied):
        bounds = "" if step.bounds is None else written(step.bounds)
        given = [*([bounds] if bounds else []), *(["deleted=True"] if step.restored else [])]
        restoring = [f"await copy.restore({f'metadata={bounds}' if bounds else ''})"] if step.restored else []
        return [f"copy = await copied({', '.join(('store', *given))})", *restoring]
    if isinstance(step, RankedAfresh):
        asked = f"{written(step.owner)}, {step.queries!r}, {step.modes!r}"
        return [f"unlike = await unlike_afresh(store, {asked})"]
    if isinstance(step, Together):
        return _spread("await asyncio.gather(", [*map(call_text, step.calls), "return_exceptions=True"], ")")
    if isinstance(step, Cancelled):
        return [
            f"with suppress({', '.join(('asyncio.CancelledError', *dict.fromkeys(errors)))}):",
            f"    await asyncio.create_task(cancelled({call_text(step.call)}, {step.at}))",
            *(("await asyncio.sleep(1)  # What was begun may still be on its way.",) if step.by_item else ()),
        ]
    if errors:
        return [f"with suppress({', '.join(dict.fromkeys(errors))}):", f"    {_awaited(step)}"]
    return [_awaited(step)]


def _last(failure: Failure) -> list[str]:
    step = failure.steps[-1]
    if isinstance(step, SeenOutside):
        return [*step_lines(step), f"assert {failure.difference.line}, found"]
    if isinstance(step, RankedAfresh):
        return [*step_lines(step), f"assert {failure.difference.line}, unlike"]
    if failure.possible:
        cancelling = step_lines(step) if isinstance(step, Cancelled) else []
        return [*cancelling, *_one_of_several(failure)]
    if isinstance(step, (Copied, Together)) and failure.call is not None:
        return [*step_lines(step), *_compared(failure.call, failure)]
    if isinstance(step, Cancelled) and failure.difference.kind != "not ended":  # It was not cancelled: it did not wait.
        step = step.call
    if not isinstance(step, Call):
        return [*step_lines(step), f"# {failure.difference.sentence}"]
    return _compared(step, failure)


def _compared(step: Call, failure: Failure) -> list[str]:
    if failure.wanted.errors:
        names = ", ".join(dict.fromkeys(failure.wanted.errors))
        return [
            "try:",
            f"    {_awaited(step)}",
            f"except ({names},):",
            "    pass",
            "else:",
            f'    raise AssertionError("expected {names}")',
        ]
    lines = [f"found = {_awaited(step)}"]
    return [*lines, f"assert {failure.difference.line}, found"] if failure.difference.line else lines


def _one_of_several(failure: Failure) -> list[str]:
    """Return the lines that make the calls and compare their outcome with everything that would be right."""
    calls = _spread("found = await outcome(", list(map(call_text, failure.looks)), ")")
    right = [line for each in outcomes(failure.possible) for line in _spread("[", list(map(repr, each)), "],")]
    return [*calls, "assert found in [", *(f"    {line}" for line in right), "], found"]


def _spread(opening: str, parts: Sequence[str], closing: str) -> list[str]:
    """Return a call or a list on one line, or with a line for each of its parts if that is too long."""
    line = f"{opening}{', '.join(parts)}{closing}"
    return [line] if len(line) <= _LINE else [opening, *(f"    {part}," for part in parts), closing]


def program(failure: Failure, store: Store, errors: Sequence[Sequence[str]]) -> str:
    """Return the failure as a program; ``errors`` are the names of those that each of its steps may raise."""
    lines: list[str] = []
    for step, names in zip(failure.steps[:-1], errors, strict=False):
        lines += step_lines(step, names)
    lines += _last(failure)
    return composed(
        store,
        lines,
        has_clock=any(isinstance(step, Moved) for step in failure.steps),
    )


def composed(store: Store, lines: Sequence[str], *, has_clock: bool = False) -> str:
    """Return a whole program around these lines, which use an open store."""
    kind, text = type(store), "\n".join(lines)
    has_clock = has_clock or "ttl=" in text or "refresh=" in text
    opening = [
        "",
        "def open_store():",
        f"    return {recipe_of(store) or f'{kind.__qualname__}()  # with the options of your tests'}",
        "",
        "async def main():",
        *(["    outside = await Outside.begin(open_store)"] if "outside." in text else []),
        "    store = open_store()",
        "    await store.init()",
    ]
    if has_clock:
        opening.append("    store.clock = clock = Clock(2_000_000_000)")
    if "second." in text:
        opening += ["    second = open_store()  # on the same data", "    await second.init()"]
    head = [*_imports(text, has_clock=has_clock), f"from {kind.__module__} import {kind.__qualname__}", *opening]
    return "\n".join([*head, *(f"    {line}" for line in lines), "", "asyncio.run(main())"])


def _imports(text: str, *, has_clock: bool) -> list[str]:
    """Return the imports that these lines need."""
    names = ("MemoryMetadata", "MemoryItem", *(each.__name__ for each in BUILTIN_TYPES.values()))
    used = sorted(name for name in names if f"{name}(" in text)
    errors = sorted({name for name in _ERRORS if name in text})
    ours = [name for name in _OURS if f"{name}(" in text or (has_clock and name == "Clock")]
    ours += ["Outside"] if "outside." in text else []
    head = ["import asyncio"]
    head += ["import math"] if "math.inf" in text else []
    head += ["from contextlib import suppress"] if "suppress(" in text else []
    head += ["from datetime import datetime"] if "datetime.from" in text else []
    head += [f"from memoranda.errors import {', '.join(errors)}"] if errors else []
    head += [f"from memoranda.items import {', '.join(used)}"] if used else []
    return [*head, *([f"from memoranda_testing.model import {', '.join(ours)}"] if ours else [])]


_ERRORS = (
    *("IdConflictError", "InputError", "TurnConflictError", "UnsupportedError", "VersionConflictError"),
    "StoreClosedError",
)

_OURS = ("Clock", "Many", "cancelled", "copied", "held", "left_since", "outcome", "unlike_afresh")
"""The names of this package that a program may use."""


async def cancelled(work: Coroutine[Any, Any, Any], at: int) -> Any:
    """Await the work, and cancel it when it waits for the n-th time."""
    return await Stepped(work, at, cancel_this)


async def outcome(*calls: Awaitable[Any] | AsyncIterator[Any]) -> list[str]:
    """Make calls at once, then read those that yield, and return what each answered: a value, or an error's name."""
    answers = iter(await asyncio.gather(*filter(inspect.isawaitable, calls), return_exceptions=True))
    return [told(next(answers) if inspect.isawaitable(call) else await _read(call)) for call in calls]


async def _read(yielding: AsyncIterator[Any]) -> Any:
    try:
        return [each async for each in yielding]
    except Exception as error:  # noqa: BLE001  # whatever a store raises is an answer
        return error


def told(answer: Any) -> str:
    """Return an answer as text that is the same for equal answers alone."""
    if isinstance(answer, BaseException):
        return type(answer).__name__
    return _text(seen(answer))


def outcomes(possible: Sequence[Sequence[Answer]]) -> list[list[str]]:
    """Return what :func:`outcome` may return, if the calls may answer so."""
    found = [list(each) for answers in possible for each in itertools.product(*map(_texts, answers))]
    return [each for place, each in enumerate(found) if each not in found[:place]]


def _texts(answer: Answer) -> Iterator[str]:
    if answer.errors:
        yield from dict.fromkeys(answer.errors)
    elif isinstance(answer.value, AtMost):
        yield from map(repr, range(answer.value.number + 1))
    else:
        yield _text(answer.value)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, SeenRank):
        return f"{_text(value.item)} at {value.score:.6f}"
    if isinstance(value, Seen):
        fields = [f"{name}={inner!r}" for name, inner in telling_fields(value.values).items()]
        return f"{value.kind}({', '.join(fields)})"
    return repr(value)


def telling_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the id of an item, and the fields that differ from those of an empty one of its type."""
    kind = BUILTIN_TYPES.get(values["memory_type"], MemoryItem)
    blank = kind(id="x", content="", created_at="0001-01-01", updated_at=values["created_at"])
    empty = seen(blank).values
    told_apart = {name: value for name, value in values["metadata"].items() if repr(value) not in ("None", "()", "{}")}
    fields = {**values, "metadata": told_apart}
    return {name: value for name, value in fields.items() if name == "id" or repr(value) != repr(empty.get(name))}
