"""``memoranda summarize``, ``compact``, ``expand`` and ``undo``. Only the command imports this module."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from memoranda.errors import SummaryError
from memoranda_commands import options
from memoranda_commands.exits import not_found, uncertain
from memoranda_commands.options import argument, option
from memoranda_commands.terminal import progress, say, show, show_json, visible

if TYPE_CHECKING:
    from memoranda_summary import CompactionResult, Summarizer, SummaryConfig, SummaryResult, TriggerResult


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be summarized, how, and by which model."""

    template: Annotated[
        list[str] | None, option("--template -t NAME", "An installed template; may be repeated. [conversation]")
    ] = None
    keep: Annotated[int, option("--keep", "How many of the newest items to leave as they are, at least.", min=0)] = 4
    model: options.Model = None
    base_url: options.BaseUrl = None
    command: Annotated[
        str | None,
        option(
            "--command LINE",
            "A command that reads the prompt and writes the answer, instead of a service.",
            options.MODEL,
        ),
    ] = None
    max_prompt_tokens: Annotated[
        int | None,
        option(
            "--max-prompt-tokens",
            "The most estimated tokens of a prompt; a longer one is split into parts.",
            options.MODEL,
            min=1,
        ),
    ] = None

    def config(self, **thresholds: Any) -> SummaryConfig:
        """Return the templates and limits of a summary."""
        from memoranda_summary import SummaryConfig

        templates = tuple(self.template or ("conversation",))
        return SummaryConfig(
            templates=templates, keep_recent=self.keep, max_prompt_tokens=self.max_prompt_tokens, **thresholds
        )

    def summarizer(self) -> AbstractAsyncContextManager[Summarizer]:
        """Give the model for a block."""
        from memoranda_summary.generation import chosen_model

        return chosen_model(self.base_url, self.model, self.command)


@options.grouped("asked", Asked)
@options.scoped
def summarize(asked: Asked, *, target: options.Target) -> None:
    """Summarize a conversation and print the summaries; nothing is stored."""
    from memoranda.windowing import as_said
    from memoranda_commands.exits import run
    from memoranda_summary import generate_summary

    config = asked.config()

    async def work() -> SummaryResult:
        async with asked.summarizer() as summarizer:
            async with target.opened() as store:
                unarchived = store.scan(metadata=target.metadata, archived=False, order="added")
                items = as_said([item async for item in unarchived])
            with progress("asking the model", None):
                return await generate_summary(items, config, summarizer)

    result = run(work())
    if target.as_json:
        kept = [item.id for item in result.compressed_items]
        show_json({"summaries": result.summaries, "original_count": result.original_count, "kept": kept})
        return
    if not result.summaries:
        say(f"There is nothing to summarize: {result.original_count} items, and the newest {asked.keep} are kept.")
    for name, text in result.summaries.items():
        _show_summary(name, text)


@options.grouped("asked", Asked)
@options.scoped
def compact(
    asked: Asked,
    messages: Annotated[int, option("--messages", "Compact above so many messages.", min=0)] = 20,
    tokens: Annotated[int, option("--tokens", "Compact above so many estimated tokens.", min=0)] = 4000,
    force: Annotated[bool, option("--force", "Compact below the thresholds, too.")] = False,
    dry_run: options.DryRun = False,
    *,
    target: options.Target,
) -> None:
    """Replace the older part of a conversation with a summary, if it has grown too long.

    Whole rounds are summarized. They are archived, not removed: 'memoranda undo' brings them back.
    """
    from memoranda_commands.exits import run
    from memoranda_summary import compact as swap

    config = asked.config(message_threshold=messages, token_threshold=tokens)
    if dry_run:
        _preview(target, config, force)
        return

    async def work() -> CompactionResult:
        async with asked.summarizer() as summarizer, target.opened("change") as store:
            with progress("asking the model", None):
                return await swap(store, target.metadata, config, summarizer, force=force)

    with uncertain(
        "The summary is stored and its sources archived, or nothing was changed; 'memoranda history' shows which."
    ):
        result = run(work())
    _show_compaction(result, target.as_json)


def _preview(target: options.Target, config: SummaryConfig, force: bool) -> None:
    from memoranda_summary import plan

    planned = target.run(lambda store: plan(store, target.metadata, config, force=force))
    trigger = planned.trigger
    due = f"{len(planned.older)} items would be summarized, since {trigger.reason or '--force was given'}."
    target.report(
        {"compacted": False, "dry_run": True, "items": len(planned.older), "trigger": asdict(trigger)},
        due if planned.older else _nothing_due(trigger),
    )


def _show_compaction(result: CompactionResult, as_json: bool) -> None:
    if as_json:
        show_json(
            {
                "compacted": result.compacted,
                "summary_id": result.summary_id,
                "summaries": [summary.id for summary in result.summaries],
                "archived": list(result.archived),
                "dry_run": False,
                "trigger": asdict(result.trigger),
            }
        )
    elif not result.compacted:
        say(_nothing_due(result.trigger))
    else:
        for summary in result.summaries:
            _show_summary(summary.id, summary.content)
        say(f"{len(result.archived)} items are archived; memoranda undo {result.summary_id} brings them back.")


def _nothing_due(trigger: TriggerResult) -> str:
    counted = f"{trigger.message_count} messages, about {trigger.estimated_tokens} tokens"
    why = "; all of it is summarized already, or is part of what is kept" if trigger.triggered else ""
    return f"Nothing is due: {counted}{why}."


@options.scoped
def expand(
    summary_id: Annotated[str, argument("ID", "A summary's id.")],
    *,
    target: options.Target,
) -> None:
    """Show the items that a summary stands for. Nothing is changed."""
    from memoranda.store import dump_item
    from memoranda_commands.render import conversation
    from memoranda_summary import expand as sources_of

    with not_found(SummaryError):
        items = target.run(lambda store: sources_of(store, summary_id, metadata=target.metadata))
    if target.as_json:
        show_json({"items": [dump_item(item) for item in items]})
    else:
        show(conversation(items, times=True))


@options.scoped
def undo(
    summary_id: Annotated[str, argument("ID", "A summary's id.")],
    *,
    target: options.Target,
) -> None:
    """Undo a summary: remove it, and show the items again that it stood for."""
    from memoranda_summary import undo as take_back

    with not_found(SummaryError):
        back = target.run(lambda store: take_back(store, summary_id, metadata=target.metadata), "change")
    target.report({"restored": [item.id for item in back]}, f"{len(back)} items are shown again.")


def _show_summary(name: str, text: str) -> None:
    from rich.text import Text

    show(Text(visible(name), style="bold"), Text(visible(text)), Text())
