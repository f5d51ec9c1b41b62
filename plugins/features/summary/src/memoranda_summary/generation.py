"""When to summarise a conversation, and summaries of it by any number of templates.

Nothing here stores anything: :mod:`memoranda_summary.compaction` swaps summaries for what they stand for.
"""

from __future__ import annotations

import asyncio
import math
import os
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from memoranda.errors import InputError, PluginLoadError, PluginNotFoundError, SummaryError
from memoranda.integrity import conversation_of, pairs, shown_together
from memoranda.items import MemoryItem, MemoryStatus
from memoranda.shapes import number, whole_number
from memoranda.tokens import TokenCounter, estimate_tokens, sent_length
from memoranda.urls import redacted
from memoranda.windowing import rounds_of
from memoranda_messages import results_behind_calls
from memoranda_summary.templates import CONTENT, PlainTemplate, Prompter, Template, TemplateAnswer, installed_template

if TYPE_CHECKING:
    from memoranda.plugins.registry import Registry


DEFAULT_TIMEOUT = 300.0
"""The seconds that a summarizer has for each prompt."""


class SummaryTemplate(StrEnum):
    """The templates of this project; each comes as a distribution of its own. Others are named by plain text."""

    CONVERSATION = "conversation"
    FACTS = "facts"
    PROFILES = "profiles"


@dataclass(frozen=True, slots=True)
class SummaryConfig:
    """When to summarise, with which templates, and how much to keep as it is.

    Thresholds trigger when they are exceeded. ``templates`` are looked up by name among the installed plugins.
    ``prompts`` replaces a template's instructions; a template with a prompt here need not be installed, and where it
    says ``{content}`` the transcript is put. ``max_prompt_tokens`` is the most that the model takes in one prompt, None
    for no limit; what is longer is summarised in parts. Raises InputError, naming the field, for values that make no
    sense.
    """

    message_threshold: int = 20
    token_threshold: int = 4000
    templates: tuple[SummaryTemplate | str, ...] = (SummaryTemplate.CONVERSATION,)
    prompts: Mapping[SummaryTemplate | str, str] = field(default_factory=dict, hash=False)
    keep_recent: int = 4
    token_estimate_ratio: float = 4.0
    max_prompt_tokens: int | None = None

    def __post_init__(self) -> None:
        for name in ("message_threshold", "token_threshold", "keep_recent"):
            whole_number(getattr(self, name), name)
        number(self.token_estimate_ratio, "token_estimate_ratio", " of characters", zero=False)
        if self.max_prompt_tokens is not None:
            whole_number(self.max_prompt_tokens, "max_prompt_tokens", least=1)
        object.__setattr__(self, "templates", _checked_templates(self.templates))
        # A copy, so that changing the dict does not change a frozen configuration.
        object.__setattr__(self, "prompts", _checked_prompts(self.prompts))

    def get_prompt(self, template: SummaryTemplate | str) -> str:
        """Return the prompt for a template: the one in ``prompts`` as it is, else the template's own instructions.

        The template's own have ``{content}`` where the transcript goes, so that code which fills in a text itself
        sends one. What :func:`generate_summary` sends also says how to answer, and marks the transcript as data.
        Raises PluginNotFoundError, saying what to install, when there is neither.
        """
        if template in self.prompts:
            return self.prompts[template]
        instructions = find_template(template, self).instructions
        return instructions if CONTENT in instructions else f"{instructions}\n\n{CONTENT}"


def _checked_templates(templates: Any) -> tuple[str, ...]:
    if isinstance(templates, str) or not isinstance(templates, Sequence):
        raise InputError("templates must be a tuple of template names.", field="templates")
    for name in templates:
        if not isinstance(name, str) or not name:
            raise InputError(f"A template is named by text that is not empty, not by {name!r}.", field="templates")
    if not templates:
        raise InputError("templates must name at least one template.", field="templates")
    return tuple(dict.fromkeys(templates))


def _checked_prompts(prompts: Any) -> dict[str, str]:
    if not isinstance(prompts, Mapping):
        raise InputError("prompts must be a dict from template names to texts.", field="prompts")
    for name, prompt in prompts.items():
        if not isinstance(name, str) or not isinstance(prompt, str) or not prompt.strip():
            raise InputError(f"The prompt for {name!r} must be text that is not empty.", field="prompts")
    return dict(prompts)


@dataclass(frozen=True, slots=True)
class TriggerResult:
    """If a summary is due, and why; ``reason`` is empty when it is not."""

    triggered: bool
    reason: str
    message_count: int
    estimated_tokens: int


@runtime_checkable
class Summarizer(Protocol):
    """A model that answers a prompt."""

    async def summarize(self, prompt: str) -> str: ...


@dataclass(slots=True)
class SummaryResult:
    """The model's summaries, by the name of the template, and the items to keep beside them, oldest first."""

    summaries: dict[str, str] = field(default_factory=dict)
    compressed_items: list[MemoryItem] = field(kw_only=True)
    original_count: int = field(kw_only=True)


def check_trigger(
    items: Sequence[MemoryItem], config: SummaryConfig, *, counter: TokenCounter | None = None
) -> TriggerResult:
    """Find out if a summary is due: if there are more messages or more tokens than the thresholds.

    Tokens are estimated from the length of what a model would be sent, tool names and arguments included; a
    ``counter`` counts them instead.
    """
    count = len(items)
    if counter is None:
        tokens = math.ceil(sum(map(sent_length, items)) / config.token_estimate_ratio)
    else:
        tokens = sum(map(counter, items))
    reasons = []
    if count > config.message_threshold:
        reasons.append(f"{count} messages exceed the threshold of {config.message_threshold}")
    if tokens > config.token_threshold:
        reasons.append(f"an estimated {tokens} tokens exceed the threshold of {config.token_threshold}")
    return TriggerResult(bool(reasons), " and ".join(reasons), count, tokens)


async def generate_summary(
    items: Sequence[MemoryItem],
    config: SummaryConfig,
    summarizer: Any,
    *,
    timeout: float | None = DEFAULT_TIMEOUT,
    registry: Registry | None = None,
    counter: TokenCounter | None = None,
) -> SummaryResult:
    """Summarise all but the most recent items, once for each template, and return the answers and what to keep.

    Items are given oldest first. Kept are the last ``keep_recent``, more where a tool call would be parted from its
    results, and before those every system item, every lasting summary and whatever is not accepted. With nothing to
    compress the model is not asked and there are no summaries. Templates run at the same time; ``timeout`` is the
    number of seconds that each prompt may take. ``registry`` is where they are looked up, by default among what is
    installed. What is longer than ``max_prompt_tokens`` of the configuration, as ``counter`` counts a prompt or by the
    estimate, is summarised in parts that keep a tool call and its results together, and then the parts are.

    Raises SummaryError when the model fails, is late or answers nothing, on any part, and when the parts do not get
    shorter; PluginNotFoundError for a template that is not installed. Nothing is changed then.
    """
    older, kept = split(items, config.keep_recent)
    answers = await ask(older, config, summarizer, timeout=timeout, registry=registry, counter=counter)
    return SummaryResult(
        {answer.name: answer.text for answer in answers}, compressed_items=kept, original_count=len(items)
    )


def split(
    items: Sequence[MemoryItem], keep_recent: int, *, whole_rounds: bool = False
) -> tuple[list[MemoryItem], list[MemoryItem]]:
    """Return the items to compress and the items to keep, both oldest first.

    A tool call and its results are always on the same side, and so are the items of a group and, with ``whole_rounds``,
    of a round in which a human speaks, but for what was discarded: what would be cut is kept. A call of the last round
    that still waits for a result is kept, since the result would come without its call. Each conversation has a cut of
    its own.
    """
    whose = [conversation_of(item) for item in items]
    last_human = {whose[at]: at for at, item in enumerate(items) if item.memory_type == "human"}
    together = shown_together(items)
    for places in rounds_of(items) if whole_rounds else ():
        if whose[places[0]] in last_human:
            together.append([at for at in places if items[at].status is not MemoryStatus.DISCARD] or places)
    starts = dict.fromkeys(whose, max(len(items) - keep_recent, 0))
    waiting = {at for at, count in pairs(items)[1].items() if count and at > last_human.get(whose[at], -1)}
    for places in sorted([*together, *([at] for at in waiting)], reverse=True):
        start = starts[whose[places[0]]]
        if places[0] < start and (places[-1] >= start or not waiting.isdisjoint(places)):
            starts[whose[places[0]]] = places[0]
    kept = {at for at, item in enumerate(items) if at >= starts[whose[at]] or is_pinned(item)}
    while cut := [places for places in together if not kept.isdisjoint(places) and not kept.issuperset(places)]:
        kept.update(chain.from_iterable(cut))
    older = [item for at, item in enumerate(items) if at not in kept]
    return older, [item for at, item in enumerate(items) if at in kept]


def is_pinned(item: MemoryItem) -> bool:
    """Return True for an item that is never summarised: a system item, a lasting summary, a draft or a discard."""
    return (
        item.memory_type == "system"
        or (item.memory_type == "summary" and bool(getattr(item, "lasting", False)))
        or item.status is not MemoryStatus.ACCEPTED
    )


def find_template(name: SummaryTemplate | str, config: SummaryConfig, registry: Registry | None = None) -> Template:
    """Return the installed template of this name, or a plain one if only the configuration has a prompt for it.

    Raises PluginNotFoundError, saying what to install, when there is neither.
    """
    try:
        return installed_template(str(name), registry)
    except PluginNotFoundError:
        if name not in config.prompts:
            raise
        return PlainTemplate(str(name))


def installed_summarizer(name: str, registry: Registry | None = None, **options: Any) -> Summarizer:
    """Return a new summarizer of this name, made with the options. Raises PluginNotFoundError, PluginLoadError."""
    from memoranda.plugins.hookspecs import SummarizerSpec
    from memoranda.plugins.registry import default_registry  # Plugins are looked for when they are first needed.

    registry = registry or default_registry()
    made = registry.make(registry.find(SummarizerSpec, name), **options)
    if not isinstance(made, Summarizer):
        raise PluginLoadError(name, f"it is a {type(made).__name__}, which is not a summarizer.")
    return made


async def ask(
    older: Sequence[MemoryItem],
    config: SummaryConfig,
    summarizer: Any,
    *,
    timeout: float | None,
    registry: Registry | None = None,
    counter: TokenCounter | None = None,
) -> list[TemplateAnswer]:
    """Return the model's answer for each template, in their order, all asked at the same time; none for no items."""
    if not callable(getattr(summarizer, "summarize", None)):
        raise InputError(
            f"A summarizer has an async method summarize(prompt); {type(summarizer).__name__} has none.",
            field="summarizer",
        )
    if not older:
        return []
    # In a thread: this may be the first use of the plugins, which loads them.
    found = await asyncio.to_thread(lambda: [find_template(name, config, registry) for name in config.templates])
    templates = dict(zip(map(str, config.templates), found, strict=True))
    count = counter or (lambda item: estimate_tokens(item, config.token_estimate_ratio))
    # Where sessions spoke at the same time, each result must stand with its own call.
    items = results_behind_calls(older)
    prompters = [
        Prompter(
            name, template, config.prompts.get(name), summarizer.summarize, timeout, config.max_prompt_tokens, count
        )
        for name, template in templates.items()
    ]
    tasks = [asyncio.ensure_future(prompter.answer(items)) for prompter in prompters]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        # A TaskGroup would leave the caller's task marked as cancelled on Python 3.11, for its timeouts to trip over.
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


MODEL_VARIABLE = "MEMORANDA_MODEL"
"""The environment variable that names the model where no option does."""


@dataclass(frozen=True, slots=True)
class CommandModel:
    """A summarizer that is a command: it reads the prompt from standard input and writes its answer."""

    command: str

    async def summarize(self, prompt: str) -> str:
        """Return what the command wrote. Raises SummaryError when it cannot be started or fails."""
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *shlex.split(self.command), stdin=pipe, stdout=pipe, stderr=pipe
            )
        except (OSError, ValueError) as error:
            raise SummaryError(f"The command {self.command!r} cannot be started: {error}.") from error
        try:
            written, complaint = await process.communicate(prompt.encode())
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        if process.returncode:
            reason = " ".join(complaint.decode(errors="replace").split())[:300] or "no reason given"
            raise SummaryError(f"The command {self.command!r} failed with exit code {process.returncode}: {reason}.")
        return written.decode(errors="replace")


@asynccontextmanager
async def openai_model(model: str, base_url: str | None) -> AsyncIterator[Summarizer]:
    """Give a model of OpenAI, or of the compatible service at a URL, for the block; it is closed afterwards."""
    summarizer = installed_summarizer("openai", model=model, base_url=base_url)
    try:
        yield summarizer
    finally:
        close = getattr(summarizer, "aclose", None)
        if close is not None:
            await close()


@asynccontextmanager
async def chosen_model(base_url: str | None, model: str | None, command: str | None) -> AsyncIterator[Summarizer]:
    """Give the model that the options name, for the block. Raises InputError, saying what is missing."""
    if command:
        yield CommandModel(command)
        return
    model = model or os.environ.get(MODEL_VARIABLE)
    if not model:
        raise InputError(
            f"Name the model to ask: --model NAME (or {MODEL_VARIABLE}), with --base-url for a service of your own, or "
            f"--command.",
            field="model",
        )
    if base_url is not None and not base_url.startswith(("http://", "https://")):
        raise InputError(f"--base-url starts with https:// or http://, not {redacted(base_url)!r}.", field="base_url")
    async with openai_model(model, base_url) as summarizer:
        yield summarizer
