"""What the people in a conversation are like and prefer, one item per trait, with the messages that show it."""

from __future__ import annotations

import re

from memoranda.items import SummaryMemory
from memoranda_summary import Entry, Template, Transcript, entries, normalised

_INSTRUCTIONS = """\
Describe the people who speak in the transcript (the entries with the role human) as their assistant should remember \
them: user preferences, personality traits and background.
- Preferences: what they like, dislike, avoid or ask for again and again; how they want to be answered (language, \
length, tone, format).
- Personality and ways of working: only what they show or say of themselves, in neutral words.
- Background: name, role, skills, tools, places, people around them, goals and constraints.
- One trait is one short name and one value. Where a later statement changes an earlier one, write only the later value.
- Where several people speak, begin the name of the trait with the person's name ("Ada's favourite drink").
- Report nothing about the assistant or third parties, and nothing that the transcript does not show. Do not infer \
health, religion, politics, sexuality or ethnic origin; report them only where the person states them.
Write in the language of the conversation."""

_CONTRACT = """\
Answer with one trait per line and nothing else. Each line is a hyphen, the label of the entry that shows the trait in \
square brackets, the trait, a colon, and its value:
- [label] trait: value
If several entries show it, give all their labels: [label, label]. Use only labels that stand at the start of an entry \
of this transcript. If there is nothing to report, answer with the single word NONE."""

_UNNAMED = "note"
_DIVISION = re.compile(r"\s*(?::|\||=|→|->|\s[-–—]\s)\s*")


class ProfilesTemplate(Template):
    """Preferences, traits and background, one item per trait; each has the fields ``trait`` and ``value``."""

    name = "profiles"
    instructions = _INSTRUCTIONS
    contract = _CONTRACT
    lasting = True

    def parse(self, answer: str, transcript: Transcript) -> list[SummaryMemory]:
        """Return one item per trait and value, in the order of the answer, each once with all of its sources.

        A trait that names only sources which were not given is left out. Raises SummaryError when that leaves nothing.
        A line that names no trait is kept under the trait ``note``.
        """
        items = []
        for entry in entries(answer, transcript):
            trait, value = _trait_and_value(entry)
            if value:
                items.append(self.item(f"{trait}: {value}", entry.sources, trait=trait, value=value))
        return self.united(items, transcript)

    def identity(self, item: SummaryMemory) -> str:
        """Return trait and value without regard to case, spacing and punctuation at the end."""
        return normalised(item.content)


def _trait_and_value(entry: Entry) -> tuple[str, str]:
    trait, value = entry.fields.get("trait"), entry.fields.get("value")
    if isinstance(trait, str) and trait.strip() and isinstance(value, str):
        return " ".join(trait.split()), entry.text
    parts = _DIVISION.split(entry.text, maxsplit=1)
    if len(parts) == 2 and parts[0] and len(parts[0]) <= 100:
        return parts[0], parts[1]
    return _UNNAMED, entry.text
