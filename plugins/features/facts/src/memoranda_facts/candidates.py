"""What an extractor proposes. Nothing is decided here: :meth:`Facts.apply` does that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from memoranda_facts.dates import Moment
from memoranda_facts.records import Source


@dataclass(frozen=True, slots=True)
class Candidate:
    """A change that a rule, a model or a program proposes.

    - ``set`` asserts the object.
    - ``end`` says that it stopped being true at ``valid_to``, by default when it was said; without an object, that
      every value of the slot did.
    - ``correct`` says that ``replaces`` was never true, and that the object is, if there is one. Without ``replaces``,
      it is about what holds in a slot of one value.

    ``sources`` are the items that say so, with spans. What is ``doubtful`` is trusted one level less than they are, so
    that it disputes what holds and replaces nothing.
    """

    subject: str
    predicate: str
    object: Any = None
    kind: Literal["set", "end", "correct"] = "set"
    valid_from: Moment | None = None
    valid_to: Moment | None = None
    confidence: float = 1.0
    qualifiers: Mapping[str, Any] = field(default_factory=dict)
    sources: tuple[Source, ...] = ()
    rule: str = "manual"
    replaces: Any = None
    doubtful: bool = False
