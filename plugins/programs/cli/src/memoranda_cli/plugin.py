"""The entry point: names the commands, which are imported when they are run."""

from __future__ import annotations

from memoranda.plugins import CommandSpec, hookimpl

START, MEMORIES, REMOVING, MOVING, SUMMARIES, UPKEEP, AUTHORS = (
    "Start here",
    "Memories",
    "Removing",
    "Moving",
    "Summaries",
    "Upkeep",
    "Writing plugins",
)
SECTIONS = (START, MEMORIES, REMOVING, MOVING, SUMMARIES, UPKEEP, AUTHORS)

EXAMPLES: dict[str, tuple[str, ...]] = {
    "demo": ("demo", "demo --store sqlite:///agent.db"),
    "plugins": ("plugins", "plugins --json"),
    "add": ('add "I like a window seat." --user ada', "add --type ai --user ada --session trip < answer.txt"),
    "get": ("get 4c1f --json",),
    "search": (
        "search seat --user ada --since 2025-05-01",
        'search "where does she sit?" --mode text --all',
    ),
    "history": ("history --user ada --session trip", "history --user ada --all --ids"),
    "fork": ("fork trip --at 4c1f --user ada",),
    "stats": ("stats", "stats --user ada --json"),
    "owners": ("owners session --user ada", "owners namespace --depth 2"),
    "clear": ("clear --user ada --session trip", "clear --all --dry-run"),
    "restore": ("restore --user ada", "restore 4c1f"),
    "purge": ("purge --deleted", "purge --user ada --session trip --dry-run"),
    "doctor": ("doctor", "doctor --repair --store sqlite:///agent.db"),
    "reindex": ("reindex --store sqlite:///agent.db", "reindex --option embeddings=hashing"),
    "bench": ("bench --sizes 1000,10000 --plot cost.svg", "bench redis://localhost --calls 50"),
    "eval": ("eval questions.jsonl --store sqlite:///agent.db", "eval --make questions.jsonl --user ada"),
    "new-plugin": ("new-plugin paper", "new-plugin my-model --kind summarizer"),
    "conform": ("conform memory://", "conform sqlite:///test.db --only scope"),
}
"""One or two example lines for each command, without ``memoranda``; they end its help."""


def _command(section: str, name: str, target: str, summary: str) -> CommandSpec:
    return CommandSpec(
        name, target=f"memoranda_cli.{target}", summary=summary, section=section, examples=EXAMPLES[name]
    )


COMMANDS: tuple[CommandSpec, ...] = (
    _command(START, "demo", "demo:demo", "Watch a conversation being stored, reopened and cut to a window."),
    _command(START, "plugins", "doctor:plugins", "List the plugins, what each offers, and why one is not usable."),
    _command(MEMORIES, "add", "writing:add", "Store one memory."),
    _command(MEMORIES, "get", "reading:get", "Show one memory by its id."),
    _command(MEMORIES, "search", "reading:search", "Find memories by words, meaning, owner, type or status."),
    _command(MEMORIES, "history", "reading:history", "Read a conversation from its beginning."),
    _command(MEMORIES, "fork", "writing:fork", "Continue a session from one of its items, in a new one."),
    _command(MEMORIES, "stats", "stats:stats", "Count what is stored, by type, status and owner."),
    _command(MEMORIES, "owners", "stats:owners", "List owners: how many items each has, and since when."),
    _command(REMOVING, "clear", "writing:clear", "Remove memories by their owner, or all of them."),
    _command(REMOVING, "restore", "writing:restore", "Bring back what was cleared, where the store only hid it."),
    _command(REMOVING, "purge", "writing:purge", "Remove memories for good, deleted ones too."),
    _command(UPKEEP, "doctor", "doctor:doctor", "Check a store's health; --repair fixes what it can."),
    _command(UPKEEP, "reindex", "doctor:reindex", "Build a store's search indexes again."),
    _command(UPKEEP, "bench", "bench:bench", "Measure a store, and plot how its cost grows with its size."),
    _command(
        UPKEEP,
        "eval",
        "evaluation.command:evaluation",
        "Measure if search finds the right memories, by questions of your own.",
    ),
    _command(AUTHORS, "new-plugin", "authors:new_plugin", "Write a whole plugin that passes its tests."),
    _command(AUTHORS, "conform", "authors:conform", "Test a store against everything the protocol promises."),
)


@hookimpl
def memoranda_commands() -> list[CommandSpec]:
    """Offer the built-in commands."""
    return list(COMMANDS)
