"""The observer that applies a policy to everything before it is stored."""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from memoranda.errors import MemoryError
from memoranda.items import MemoryItem
from memoranda.store import Observer
from memoranda.store.backend import fields_of
from memoranda.trust import Trust, origin_of, trust_of
from memoranda_guard.inspection import decoded, folded, joined_letters, places, readings_of, texts_of
from memoranda_guard.policy import MOST_ACROSS, Outcome, Policy, Rule, load_policy
from memoranda_guard.quarantine import QUARANTINED, QuarantinedMemory, is_approved, is_kept_apart, withheld_result

logger = logging.getLogger(__name__)

POLICY_VARIABLE = "MEMORANDA_GUARD_POLICY"
REMOVED = "[removed]"

_MOST_ORIGINS = 1_024
_REACH = 200
"""How many characters before and after the border between items a match may reach."""

_RECORDS = frozenset({"fact", "graph"})
"""Types whose ids are computed from what they say: one in quarantine would take the place of the next."""

V = TypeVar("V")


class RefusedError(MemoryError, PermissionError):
    """A policy refuses an item, which was not stored."""

    def __init__(self, item_id: str, policy: str, rule: str, reason: str) -> None:
        why = f": {reason}" if reason else ""
        super().__init__(
            f"The item {item_id!r} was not stored. The rule {rule!r} of the policy {policy!r} refuses it{why}."
        )
        self.item_id = item_id
        self.policy = policy
        self.rule = rule
        self.reason = reason


class _Inspected:
    """The texts of one item, folded when a rule first needs them."""

    def __init__(self, item: MemoryItem) -> None:
        self.item = item

    @cached_property
    def size(self) -> int:
        return sum(map(len, texts_of(self.item)))

    @cached_property
    def content(self) -> str:
        return folded(self.item.content)

    @cached_property
    def _readings(self) -> list[str]:
        text = folded("\n".join(readings_of(self.item)))
        joined = joined_letters(text)
        return [text] if joined == text else [text, joined]

    def has(self, rule: Rule, earlier: Sequence[str]) -> bool:
        """Return True if a pattern is found in a text, or in the content together with the end of earlier ones."""
        if any(pattern.search(text) for text in self._readings for pattern in rule.compiled):
            return True
        before = list(earlier)[-rule.across :] if rule.across else []
        return any(
            found.end() > start
            for whole, start in self._together(before)
            for pattern in rule.compiled
            for found in pattern.finditer(whole)
        )

    def _together(self, before: Sequence[str]) -> list[tuple[str, int]]:
        """Return the end of earlier texts with the beginning of this one, and where it begins: as words, and as one."""
        if not before:
            return []
        apart = " ".join([*before, ""])[-_REACH:]
        joined = [(apart + self.content[:_REACH], len(apart))]
        if any(text[-1:] not in ".!?\n" for text in before):  # A word may be split.
            ends = "".join(before)[-_REACH:]
            joined.append((ends + self.content[:_REACH], len(ends)))
        return joined


class Guard(Observer):
    """Judges every item by a policy before it is stored: allows, redacts, quarantines or refuses it.

    ``policy`` is what :func:`memoranda_guard.load_policy` takes; without one, the environment's
    ``MEMORANDA_GUARD_POLICY``, else ``"standard"``.

    - An item that is redacted has each match replaced by ``[removed]``. A text in which the match cannot be located,
      because it is spread over several items, is replaced as a whole.
    - An item that is quarantined is stored as a :class:`QuarantinedMemory`, and replaces nothing: an add under an id
      that is taken leaves the stored item as it is, an update raises InputError. A fact, or an entry of a graph, is
      never redacted or quarantined, but refused.
    - A result of a tool that is quarantined leaves a result in its place, which says that it is withheld.
    - A stored item that a summary takes the place of, or that comes back, is not judged again: the store does not ask.
      One that only says so is judged like any other.
    - Rates and texts that are split over several items are remembered in this object, for the last 1,024 origins, and
      not in the store: another process, or a restart, begins anew.
    """

    def __init__(
        self,
        policy: Policy | Mapping[str, Any] | str | Path | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.policy = load_policy(os.environ.get(POLICY_VARIABLE) or "standard" if policy is None else policy)
        self._clock = clock
        self._rules = {trust: [rule for rule in self.policy.rules if rule.takes(trust)] for trust in Trust}
        self._written: OrderedDict[Hashable, deque[float]] = OrderedDict()
        self._texts: OrderedDict[Hashable, deque[str]] = OrderedDict()
        self.outcomes: Counter[str] = Counter()
        """How many items were redacted, quarantined and refused so far."""

    def __repr__(self) -> str:
        return f"Guard({self.policy.name!r})"

    def before_add(self, item: MemoryItem) -> MemoryItem:
        """Return the item as the policy wants it stored. Raises RefusedError if it wants it not."""
        if is_approved(item) or is_kept_apart(item):
            return item
        if self.hides(item):
            self.outcomes[Outcome.QUARANTINE.value] += 1
            return QuarantinedMemory.of(item, "forged-quarantine", "it says that it is in quarantine, and is not")
        rule = self._decided(item)
        outcome = self.policy.default if rule is None else rule.outcome
        if outcome is Outcome.ALLOW:
            return item
        name, reason = ("default", "no rule allows it") if rule is None else (rule.name, rule.reason)
        if item.memory_type in _RECORDS:
            outcome = Outcome.REFUSE
        self.outcomes[outcome.value] += 1
        logger.info("The guard's rule %r: %s the item %r.", name, outcome.value, item.id)
        if outcome is Outcome.REFUSE:
            raise RefusedError(item.id, self.policy.name, name, reason)
        if outcome is Outcome.QUARANTINE:
            return QuarantinedMemory.of(item, name, reason)
        assert rule is not None, "a default never redacts"
        return _redacted(item, rule.compiled)

    def gauges(self) -> dict[str, int]:
        """Return how many items were quarantined so far, for telemetry."""
        return {"quarantined": self.outcomes[Outcome.QUARANTINE.value]}

    def hides(self, item: MemoryItem) -> bool:
        """Return True for what is in quarantine: the store takes it as deleted."""
        return item.memory_type == QUARANTINED

    def stand_in(self, item: MemoryItem) -> MemoryItem | None:
        """Return what a model is shown in the place of a quarantined result of a tool, so that its call stays."""
        return withheld_result(item) if self.hides(item) else None

    def _decided(self, item: MemoryItem) -> Rule | None:
        concerned = [rule for rule in self._rules[trust_of(item)] if rule.concerns(item)]
        if not any(rule.patterns or rule.larger_than is not None or rule.more_than is not None for rule in concerned):
            return concerned[0] if concerned else None
        looked_at = _Inspected(item)
        earlier = self._earlier(item) if any(rule.across for rule in concerned) else deque()
        found = next((rule for rule in concerned if self._applies(rule, looked_at, earlier)), None)
        if any(rule.across for rule in concerned):
            earlier.append(looked_at.content[-_REACH:])
        return found

    def _applies(self, rule: Rule, looked_at: _Inspected, earlier: Sequence[str]) -> bool:
        if rule.larger_than is not None and looked_at.size <= rule.larger_than:
            return False
        if rule.more_than is not None and not self._too_many(rule, looked_at.item):
            return False
        return not rule.patterns or looked_at.has(rule, earlier)

    def _too_many(self, rule: Rule, item: MemoryItem) -> bool:
        assert rule.more_than is not None
        assert rule.per_seconds is not None
        key = (rule.name, origin_of(item), item.metadata.user_id)
        times = _entry(self._written, key, lambda: deque(maxlen=(rule.more_than or 0) + 1))
        now = self._clock()
        times.append(now)
        return len(times) > rule.more_than and now - times[0] <= rule.per_seconds

    def _earlier(self, item: MemoryItem) -> deque[str]:
        key = (origin_of(item) or item.memory_type, item.metadata.user_id, item.metadata.session_id)
        return _entry(self._texts, key, lambda: deque(maxlen=MOST_ACROSS))


def _entry(kept: OrderedDict[Hashable, V], key: Hashable, make: Callable[[], V]) -> V:
    """Return what is kept under a key, made if need be; the key that was used least recently makes room."""
    found = kept.get(key)
    if found is None:
        found = kept[key] = make()
        if len(kept) > _MOST_ORIGINS:
            kept.popitem(last=False)
    else:
        kept.move_to_end(key)
    return found


def _redacted(item: MemoryItem, patterns: Sequence[re.Pattern[str]]) -> MemoryItem:
    located = any(places(each, pattern) for each in readings_of(item) for pattern in patterns)

    def replaced(value: Any) -> Any:
        if isinstance(value, str):
            inner = decoded(value)
            kept = inner if inner is value else replaced(inner)
            return _without(value if kept == inner else json.dumps(kept, ensure_ascii=value.isascii()), patterns)
        if isinstance(value, dict):
            return {replaced(key): replaced(inner) for key, inner in value.items()}
        return [replaced(inner) for inner in value] if isinstance(value, (list, tuple)) else value

    changed: dict[str, Any] = {"content": replaced(item.content) if located else REMOVED}
    own = {name: getattr(item, name) for name in fields_of(type(item)).names} | (item.model_extra or {})
    changed |= {name: replaced(value) for name, value in own.items()}
    changed["metadata"] = item.metadata.model_copy(update={"extra": replaced(item.metadata.extra)})
    # A payload is the item as a provider sent it, matches included; its fields say the same.
    return item.model_copy(update={**changed, "name": replaced(item.name), "payload": None, "payload_format": None})


def _without(text: str, patterns: Sequence[re.Pattern[str]]) -> str:
    for pattern in patterns:
        for start, end in reversed(places(text, pattern)):
            text = text[:start] + REMOVED + text[end:]
    return text
