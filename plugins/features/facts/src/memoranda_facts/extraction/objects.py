"""Objects that may be nearly anything, as of "I love …": they are checked word by word."""

from __future__ import annotations

import re

_CUT = re.compile(
    r"\s+(?:because|since|so|but|although|though|while|when|whenever|where|which|who|as|especially|even|too|"
    r"very much|a lot|right now|now|these days|lately|more than|over|rather|until|after|before|every|just|also|then|"
    r"both|for its|for their|and (?:I|I['’]m|I['’]ve|we|it|its|my|the|they|he|she|have|has|am|is|are|want|was|"
    r"always|also|find|think|this|that|you|would|will|just|how|all|try|can|even|really|it['’]s))\b.*",
    re.DOTALL,
)
"""Where an object ends and the next thought begins."""

_POINTS_BACK = re.compile(
    r"(?:that|this|these|those|it|you|your|him|her|them|their|his|its|our|my|me|us|an?|how|what|when|where|why|who|which|"
    r"both|all|some|one|ones|either|each|every|everything|everyone|anything|something|nothing|most|none|lots|too|so|"
    r"very|as|and|but|or|better|best|more|much|not|seeing|hearing|knowing|doing|such|any|another|two|three|the)\b",
    re.IGNORECASE,
)
"""First words of what is known only from the conversation."""

_THE = re.compile(
    r"the (?:ocean|sea|beach|mountains|outdoors|rain|snow|countryside|theat(?:re|er)|opera|cold|heat|forest|desert)$"
)
_NEEDS_CONTEXT = re.compile(
    r"\b(?:it|you|your|yours|him|her|them|they|this|that|these|those|here|there|he|she|stuff|things?|one|ones|same|too|"
    r"what|how|is|are|was|were|I|any ?more|myself|today|yesterday|tonight|tomorrow|last|ago|process|part|way|idea|such|"
    r"more|up|out|their|its|much)\b"
)
_BROKEN_OFF = re.compile(r"(?:^|\s)(?:and|or|of|to|with|in|on|for|the|my|an?|at|by|from|about)$")
_GOES_ON = re.compile(
    r",\s+(?!(?:and|but|so|because|since|it|it's|its|they|that|that's|which|who|how|can|could|do|you|I|I'm|we|he|she|the|"
    r"there|this|what|especially|even|too|also|my|just|though|as|like|not|to|in|on|at|for|with|'cause|cause|due|rather|"
    r"where|when|while|got|any|is|are|should|would|will|what's|always|here's)\b)(?:[a-z][\w-]*\s+)*[a-z]"
)
_GERUND = re.compile(r",\s+(?:and\s+)?\w+ing\b")
_MOST_WORDS = 8


def named_object(words: str, after: str, *, bare: bool) -> str | None:
    """Return what is named by the words after a verb; None unless they name it by themselves.

    With ``bare`` it is a kind of thing or something to do, which has no article: "jazz", "hiking". ``after`` is what
    follows the words in the sentence, which shows if they stop in the middle: "simple, quick meals".
    """
    text = _CUT.sub("", words).strip(" -\"'*")
    if not text or len(text.split()) > _MOST_WORDS or _NEEDS_CONTEXT.search(text):
        return None
    if _BROKEN_OFF.search(text) or (bare and _POINTS_BACK.match(text) and not _THE.match(text)):
        return None
    listed = text.endswith(("s", "ing")) or (" " not in text and _GERUND.match(after))
    return None if text == words.strip() and _GOES_ON.match(after) and not listed else text
