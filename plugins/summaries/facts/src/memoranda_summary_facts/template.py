"""Key points of a conversation, one item each, with the messages that state them."""

from __future__ import annotations

from memoranda.items import SummaryMemory
from memoranda_summary import Template, Transcript, entries, normalised

_INSTRUCTIONS = """\
Extract the factual statements and verified information from the transcript that will still matter when the \
conversation is long over.
- One fact is one statement that can be understood without the transcript: write names instead of "he" or "it", and \
dates instead of "yesterday" (every entry carries its time).
- Keep numbers, names, identifiers, amounts and units exactly as they were given.
- A fact is what a speaker states as true, what a tool returned, or what was agreed. Say who claims it where that \
matters ("Ada says that …"). Questions, plans that were dropped, guesses and small talk are not facts.
- Where a later statement corrects an earlier one, write only the corrected fact.
- State nothing that the transcript does not state, and nothing twice.
Write in the language of the conversation."""

_CONTRACT = """\
Answer with one fact per line and nothing else. Each line is a hyphen, the label of the entry that states the fact in \
square brackets, and the fact as one full sentence:
- [label] The fact.
If several entries state it, give all their labels: [label, label]. Use only labels that stand at the start of an \
entry of this transcript. If there are no facts, answer with the single word NONE."""


class FactsTemplate(Template):
    """Key points: factual statements and verified information, one item each, with the messages that state it.

    They are summaries. Values that change over time, with their history, are the facts of ``memoranda-facts``.
    """

    name = "facts"
    instructions = _INSTRUCTIONS
    contract = _CONTRACT
    lasting = True

    def parse(self, answer: str, transcript: Transcript) -> list[SummaryMemory]:
        """Return one item per key point, in the order of the answer, each once with all of its sources.

        One that names only sources which were not given is left out. Raises SummaryError when that leaves nothing.
        """
        points = (self.item(entry.text, entry.sources) for entry in entries(answer, transcript))
        return self.united(points, transcript)

    def identity(self, item: SummaryMemory) -> str:
        """Return the key point without regard to case, spacing, typographic variants and the full stop at its end."""
        return normalised(item.content)
