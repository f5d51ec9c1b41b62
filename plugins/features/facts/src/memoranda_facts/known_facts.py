"""What a store knows of its users without a further call: the observer of ``memoranda.open(url, facts="rules")``."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from memoranda.errors import InputError, PluginLoadError
from memoranda.items import MemoryMetadata
from memoranda.store import Observer, Store
from memoranda.store.spaces import space_of
from memoranda.tokens import TokenCounter
from memoranda.trust import Trust, check_trust
from memoranda_facts.extraction.extractors import FactExtractor, installed_extractor
from memoranda_facts.extraction.rule_table import everyday_schema
from memoranda_facts.extraction.running import ExtractionRun
from memoranda_facts.facts import Facts
from memoranda_facts.profile_lines import Outdated
from memoranda_facts.values import Moment

logger = logging.getLogger(__name__)

STORED = "stored"
"""The name that stands for no extractor."""

_KEPT_USERS = 256
"""How many users' facts are kept in memory; those of any other are read again when they are asked for."""


class KnownFacts(Observer):
    """Answers what is known of a user, and which items say what holds no longer.

    ``value`` is the name of an installed extractor, or an extractor. It reads what was added when somebody asks, so
    that an add waits for nothing and an answer lacks nothing. ``"stored"`` reads nothing: it answers with the facts
    that are there, set by hand or extracted elsewhere. Only what users said themselves counts: what tools, assistants
    or strangers said is recorded with their trust and never among the answers. Of a space nothing is known:
    nobody there speaks as its owner.
    """

    only_removals = True

    def __init__(self, value: str | FactExtractor = "rules") -> None:
        self._extractor = None if value == STORED else _extractor(value)
        self._schema = everyday_schema()
        self._kept: OrderedDict[MemoryMetadata, _Reading] = OrderedDict()

    async def known(
        self,
        handle: Store,
        owner: MemoryMetadata | None,
        *,
        tokens: int,
        counter: TokenCounter | None = None,
        min_trust: str | None = None,
        at: Moment | None = None,
    ) -> list[str]:
        """Return what holds of the owner as lines; see :meth:`memoranda_facts.Facts.profile_lines`."""
        facts = await self._facts(handle, owner)
        if facts is None or not tokens:
            return []
        return await facts.profile_lines(tokens=tokens, counter=counter, min_trust=_least(min_trust), at=at)

    async def outdated(
        self,
        handle: Store,
        owner: MemoryMetadata | None,
        ids: Iterable[str],
        *,
        min_trust: str | None = None,
        at: Moment | None = None,
    ) -> dict[str, str]:
        """Return remarks on the items that say what holds no longer; see :meth:`memoranda_facts.Facts.outdated`."""
        facts = await self._facts(handle, owner)
        if facts is None:
            return {}
        found = await facts.outdated(ids, min_trust=_least(min_trust), at=at)
        return {item_id: _joined(remarks) for item_id, remarks in found.items()}

    async def _facts(self, handle: Store, owner: MemoryMetadata | None) -> Facts | None:
        """Return the facts of a user after reading what was added since; None where there is no user, as in a space."""
        if owner is None or owner.user_id is None or space_of(owner) is not None:
            return None
        facts, run = self._reading_of(handle, owner)
        if handle.access == "read" or run is None:
            return facts
        try:
            await run.read_on()
        except Exception as error:  # A prompt without the newest facts is better than none.
            logger.error("Facts could not be extracted: %s. They are tried again.", type(error).__name__)
            logger.debug("What was raised:", exc_info=error)
        return facts

    def _reading_of(self, handle: Store, owner: MemoryMetadata) -> _Reading:
        theirs = MemoryMetadata(user_id=owner.user_id, agent_id=owner.agent_id, namespace=owner.namespace)
        reading = self._kept.get(theirs)
        if reading is None:
            facts = _FactsAsRead(_owned(handle, theirs), schema=self._schema)
            run = None if self._extractor is None else ExtractionRun(facts, self._extractor)
            reading = self._kept[theirs] = _Reading(facts, run)
            if len(self._kept) > _KEPT_USERS:
                self._kept.popitem(last=False)
        self._kept.move_to_end(theirs)
        return reading


class _Reading(NamedTuple):
    """The facts of a user, and what reads on for them, if anything does."""

    facts: Facts
    run: ExtractionRun | None


class _FactsAsRead(Facts):
    """The facts that an observer keeps: reading them asks no observer, which would ask itself."""

    async def _before_reading(self) -> None:
        await self.settle()


def _joined(remarks: Sequence[Outdated]) -> str:
    """Return the remarks on one item. They say what they are about where it says more than that."""
    is_all_it_says = len(remarks) == 1 and not remarks[0].is_part
    texts = [str(each) if is_all_it_says else each.named for each in remarks]
    return "; ".join(dict.fromkeys(texts))


def _extractor(value: object) -> FactExtractor:
    if isinstance(value, FactExtractor):
        return value
    if not isinstance(value, str):
        raise InputError(f"facts is the name of a fact extractor or one, not {type(value).__name__}.", field="facts")
    try:
        return installed_extractor(value)
    except PluginLoadError as error:
        if not isinstance(error.__cause__, TypeError):
            raise
        raise InputError(
            f"The fact extractor {value!r} needs options: make one, and give it as facts=… instead of its name.",
            field="facts",
        ) from None


def _owned(handle: Store, owner: MemoryMetadata) -> Store:
    """Return a handle of an owner that writes facts with the trust of their sources, whatever the given one stamps."""
    store: Store = handle.root
    scope: dict[str, Any] = {"user_id": owner.user_id, "agent_id": owner.agent_id, "namespace": owner.namespace or None}
    return store.scoped(**{name: value for name, value in scope.items() if value is not None})


def _least(min_trust: str | None) -> Trust:
    """Return how far a source is trusted at least: as the user, or further if that is asked for."""
    return Trust.USER if min_trust is None else max(Trust.USER, check_trust(min_trust, "min_trust"))
