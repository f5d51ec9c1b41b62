"""One running summary of a conversation, to be read by the model that goes on with it."""

from __future__ import annotations

import json
import re

from memoranda.errors import SummaryError
from memoranda.items import SummaryMemory
from memoranda_summary import Template, Transcript, cleaned

_INSTRUCTIONS = """\
Summarise the conversation in the transcript for an assistant that will continue it without having seen it. Focus on \
key decisions, action items and important context:
- decisions that were made, with their reasons and with alternatives that were rejected;
- action items and promises: who does what by when, and what is already done;
- open questions, and what the user last asked for;
- names, numbers, dates, identifiers, paths and constraints, exactly as they were given;
- what tools were used for and what they found; failed attempts that should not be repeated.
Report what was said and by whom. Do not judge, guess, advise or add anything that is not in the transcript. Later \
statements override earlier ones: report the present state and mention a change of mind only where it matters. Leave \
out greetings and small talk. Write in the language of the conversation."""

_CONTRACT = """\
Answer with the summary alone, as plain text of at most 400 words under those of these headings that have anything \
under them:
Decisions:
Action items:
Context:
Write each point as one line that starts with a hyphen. No preamble, no closing remark, no code fence."""

_TITLE = re.compile(r"(?:#{1,6}\s*)?\**(?:conversation )?summary\**\s*:?\s*\**\s*\n", re.IGNORECASE)
_JSON_KEYS = ("summary", "text", "content")


class ConversationTemplate(Template):
    """Key decisions, action items and important context, as one item that stands for the whole transcript."""

    name = "conversation"
    instructions = _INSTRUCTIONS
    contract = _CONTRACT

    def parse(self, answer: str, transcript: Transcript) -> list[SummaryMemory]:
        """Return the answer as one item, without fence, preamble or title; its sources are the whole transcript.

        Raises SummaryError when nothing is left.
        """
        text = _unwrapped(cleaned(answer))
        text = re.sub(r"\n{3,}", "\n\n", _TITLE.sub("", text, count=1) if _TITLE.match(text) else text).strip()
        if not re.search(r"\w", text):
            raise SummaryError("The answer for the template 'conversation' holds no text.")
        return [self.item(text, transcript.sources)]


def _unwrapped(text: str) -> str:
    """Return the summary in an answer that came as a JSON object or string instead of plain text."""
    if text[:1] not in ("{", '"'):
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(value, dict):
        value = next((value[key] for key in _JSON_KEYS if isinstance(value.get(key), str)), None)
    return cleaned(value) if isinstance(value, str) else text
