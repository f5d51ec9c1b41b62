"""Context assembly: the soul, what was remembered and the request, fitted into a model's budget."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

from memoranda.errors import InputError, MemoryError
from memoranda.integrity import whole_groups
from memoranda.items import HumanMemory, MemoryItem, MemoryMetadata, SystemMemory
from memoranda.shapes import check_text, items_of, number, truth, whole_number, wrong
from memoranda.store.base import Store
from memoranda.store.calls import report_call
from memoranda.store.filters import EVERYTHING
from memoranda.store.protocol import Capability, MemoryStore
from memoranda.store.short_term import Conversation
from memoranda.tokens import TokenCounter, estimate_tokens
from memoranda.trust import Trust, check_trust, trust_of
from memoranda.windowing import as_said, newest
from memoranda_context.budget import Counts, Shares
from memoranda_context.explaining import Shown, root_of
from memoranda_context.fencing import MOST_READ, Admission, Fence, checked_fence, trusted
from memoranda_context.fitting import Fetched, Fitting
from memoranda_context.memories import known_profile, known_tokens, prompt_memories
from memoranda_context.merging import merged
from memoranda_context.prompt import AssembledContext, Parts
from memoranda_context.remembering import Remembering
from memoranda_messages.prompts import remarked

logger = logging.getLogger(__name__)

DEFAULT_BUDGET = 8000
_USUAL_LIMIT = 10

_REACH_OF_A_GROUP = 100
"""How many items lie between the first and the last of a group at the most: those of one answer of a model."""

_RANKED = (Capability.HYBRID, Capability.TEXT, Capability.SEMANTIC)


class RecentMemories(Protocol):
    """What context assembly needs of a short-term manager. A manager with ``connect()`` is connected first."""

    async def get_recent(self, hours: float = 2.0, limit: int | None = None) -> Sequence[MemoryItem]: ...


class Profile(Protocol):
    """What context assembly needs of facts: what is known, as lines of so many tokens at most."""

    async def profile(self, *, tokens: int) -> str: ...


class ContextManager:
    """Puts contexts together from a soul file, recent memories and long-term memories, within a token budget.

    ``soul_path`` is a text file that says who the agent is; it is read for every context. ``long_term`` is any
    store, a scoped handle included. A store of ours gives what :func:`memoranda_context.assemble` shows: what was said
    before that is worth knowing whatever is asked, and what the query asks for. With ``long_term_limit``, or where it
    is no store of ours, it gives at most so many: what it recalls, or the newest items that contain the query, and the
    newest items in the room that this leaves.

    At most ``recent_limit`` interactions of the last ``recent_hours``, or turns of a conversation store, are looked at;
    system items of a conversation all stay, also where there are more of them. ``token_counter`` is a function from an
    item to its tokens.

    What the observers of ``long_term`` know of the user has a section of its own, and a memory that holds no longer
    says so (see :meth:`memoranda.store.Store.known`); ``facts=False`` leaves out both. ``profile``, such as
    ``memoranda_facts.Facts(handle)``, gives that section instead, of at most ``profile_tokens`` tokens.

    What goes in, by priority: the soul and the query always, even where they alone exceed the budget; then the profile,
    whole or not at all; then what was said before that is worth knowing whatever is asked; then the system items and
    the newest whole rounds of the conversation; then the recent memories, newest first, without gaps; then the
    long-term memories that the search found, best first, and with a ``long_term_limit`` the newest, each one that still
    fits. A memory that is there twice is shown once; of the newest, what the conversation or the query says is passed
    over. Incomplete tool-call groups are taken out. In the context the conversation stands in the order in which it was
    said, everything else in the order of time, and its explanation says of each memory why it is there.

    ``fence``, such as ``memoranda_guard.Fence()``, shows items that are not trusted as quoted data, in no role but the
    user's or a tool's, and of those that repeat each other one. ``min_trust`` leaves out what is trusted less.

    ``receipt=True``, or a :class:`memoranda_receipts.Recording`, records every context in ``long_term``, or where that
    is no store of ours, in the conversation store: see :meth:`memoranda.store.Store.shown`.

    Raises InputError for options that make no sense. A missing soul file, a store or a Redis that cannot be reached and
    an empty memory raise nothing: they are warnings in the explanation of the context.
    """

    def __init__(
        self,
        soul_path: str | Path | None = None,
        *,
        long_term: MemoryStore | None = None,
        token_budget: int = DEFAULT_BUDGET,
        token_counter: TokenCounter | None = None,
        recent_hours: float = 2.0,
        recent_limit: int = 20,
        long_term_limit: int | None = None,
        profile: Profile | None = None,
        profile_tokens: int = 200,
        facts: bool = True,
        fence: Fence | None = None,
        min_trust: Trust | str | None = None,
        receipt: object = None,
    ) -> None:
        if not isinstance(soul_path, (str, os.PathLike, type(None))):
            raise wrong("soul_path", "a path", soul_path)
        self.soul_path = None if soul_path is None else Path(soul_path)
        self.long_term = long_term
        self.token_budget = whole_number(token_budget, "token_budget")
        self.token_counter: TokenCounter = token_counter or estimate_tokens
        if token_counter is not None and not callable(token_counter):
            raise wrong("token_counter", "a function from an item to a number", token_counter)
        self.recent_hours = number(recent_hours, "recent_hours")
        self.recent_limit = whole_number(recent_limit, "recent_limit")
        self.long_term_limit = None if long_term_limit is None else whole_number(long_term_limit, "long_term_limit")
        self.profile = profile
        if profile is not None and not callable(getattr(profile, "profile", None)):
            raise wrong("profile", "an object with an async method profile(tokens=…)", profile)
        self.profile_tokens = whole_number(profile_tokens, "profile_tokens")
        self.facts = truth(facts, "facts")
        self.fence = checked_fence(fence)
        self.min_trust = None if min_trust is None else check_trust(min_trust, "min_trust")
        self.receipt = receipt

    async def assemble_context(
        self,
        input_query: str,
        short_term_manager: RecentMemories | MemoryStore | None = None,
        *,
        conversation: Sequence[MemoryItem] = (),
        metadata: MemoryMetadata | None = None,
        token_budget: int | None = None,
    ) -> AssembledContext:
        """Return the context for a query; see the class for what goes into it.

        ``short_term_manager`` is asked for its recent interactions and connected if need be; a conversation store, such
        as ShortTermMemory, gives its items as ``conversation`` instead, which may also be given as items, oldest first.
        Where both are given they are put together, each turn once (see :func:`memoranda_context.merging.merged`); a
        turn that was read back from messages is known by what it says and where. ``metadata`` filters what is read from
        stores. Raises InputError for a query that is not text, a conversation that holds anything but items, a negative
        budget, and a filter that contradicts the scope of a handle; what cannot be fetched is a warning, not an error.
        """

        async def assemble_context(_: object, question: str) -> AssembledContext:
            return await self._assembled(question, short_term_manager, conversation, metadata, token_budget)

        # A store that is measured reports the assembly, too.
        return await report_call(self.long_term, assemble_context, input_query)

    async def _assembled(
        self,
        input_query: str,
        short_term_manager: RecentMemories | MemoryStore | None,
        conversation: Sequence[MemoryItem],
        metadata: MemoryMetadata | None,
        token_budget: int | None,
    ) -> AssembledContext:
        check_text(input_query, "input_query")
        budget = self.token_budget if token_budget is None else whole_number(token_budget, "token_budget")
        admission = Admission(self.fence, budget, Counts(self.token_counter))
        given = items_of(conversation, "conversation")
        fetched = await self._fetch(short_term_manager, metadata, admission)
        short_term = {item.id for item in [*fetched.recent, *fetched.conversation]}
        fetched.conversation, fetched.copies = merged(fetched.conversation, trusted(given, self.min_trust))
        found = await self._read_long_term(fetched, input_query, metadata, admission)
        originals = {item.id: item for item in [*found, *fetched.recent, *fetched.conversation]}
        if self.fence is not None:
            self._fence(fetched, self.fence, admission)
        most = len(fetched.long_term) if self.long_term_limit is None and not fetched.newest else self._limit
        context = Fitting(fetched, input_query, budget, admission.count, most).context()
        store = next((each for each in (self.long_term, short_term_manager) if isinstance(each, Store)), None)
        if store is not None:
            elsewhere = set() if root_of(store) is root_of(short_term_manager) else short_term
            elsewhere |= {item.id for item in given if not item.version}
            asked: dict[str, Any] = {"tokens": budget, "limit": self.long_term_limit, "recent_limit": self.recent_limit}
            asked |= {"recent_hours": self.recent_hours, **self._least()}
            asked["known"] = known_tokens(budget) if fetched.profile and self.profile is None else None
            shown = Shown("context", context, originals, asked, self.token_counter, elsewhere=elsewhere)
            await shown.recorded(store, self.receipt, metadata)
        elif self.receipt:
            raise InputError("A receipt is an item: it needs long_term, or a conversation store.", field="receipt")
        return context

    def _fence(self, fetched: Fetched, fence: Fence, admission: Admission) -> None:
        distinct = {id(item) for item in fence.distinct([*fetched.long_term, *fetched.newest])}
        entries = [*fetched.told, *reversed(fetched.newest), *reversed(fetched.long_term), *fetched.recent]
        fetched.conversation, shown = admission.fenced(fetched.conversation, entries)
        if left_out := len(admission.without_room):
            fetched.warnings.append(f"No room was left in the fence for {left_out} items that are not trusted.")
        fetched.recent = [shown[item.id] for item in fetched.recent if item.id in shown]
        fetched.told = [shown[item.id] for item in fetched.told if item.id in shown]
        for name in ("long_term", "newest"):
            kept = [item for item in getattr(fetched, name) if id(item) in distinct and item.id in shown]
            setattr(fetched, name, [shown[item.id] for item in kept])

    async def _fetch(
        self,
        short_term: RecentMemories | MemoryStore | None,
        metadata: MemoryMetadata | None,
        admission: Admission,
    ) -> Fetched:
        fetched = Fetched()
        results = await asyncio.gather(
            self._read_soul(fetched),
            self._read_profile(fetched, metadata, admission),
            self._read_short_term(fetched, short_term, metadata, admission),
            return_exceptions=True,  # None is left running when another meets a mistake of the caller.
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return fetched

    async def _read_soul(self, fetched: Fetched) -> None:
        if self.soul_path is None:
            return
        try:
            fetched.soul = await asyncio.to_thread(self.soul_path.read_text, encoding="utf-8")
        except FileNotFoundError:
            fetched.warnings.append(f"There is no soul file at {str(self.soul_path)!r}.")
        except (OSError, ValueError) as error:
            fetched.warnings.append(f"The soul file {str(self.soul_path)!r} cannot be read: {type(error).__name__}.")

    async def _read_profile(self, fetched: Fetched, metadata: MemoryMetadata | None, admission: Admission) -> None:
        try:
            if self.profile is None:
                fetched.profile = await self._known(metadata, admission.tokens)
            elif self.profile_tokens:
                fetched.profile = (await self.profile.profile(tokens=self.profile_tokens)).strip()
        except InputError:
            raise
        except Exception as error:  # noqa: BLE001  # an agent without its memory is better than no agent
            fetched.warnings.append(_failed("The profile", error))

    async def _known(self, metadata: MemoryMetadata | None, budget: int) -> str:
        if not self.facts or not isinstance(self.long_term, Store):
            return ""
        return await known_profile(self.long_term, budget, self.token_counter, self._wanted(metadata))

    async def _remark(self, fetched: Fetched, metadata: MemoryMetadata | None) -> None:
        fetched.remarks = await self._remarks(fetched, metadata, [*fetched.long_term, *fetched.newest])
        fetched.long_term = remarked(fetched.long_term, fetched.remarks)
        fetched.newest = remarked(fetched.newest, fetched.remarks)

    async def _remarks(
        self, fetched: Fetched, metadata: MemoryMetadata | None, items: Sequence[MemoryItem]
    ) -> dict[str, str]:
        if not self.facts or not isinstance(self.long_term, Store):
            return {}
        try:
            return await self.long_term.outdated([item.id for item in items], **self._wanted(metadata))
        except Exception as error:  # noqa: BLE001  # as above
            fetched.warnings.append(_failed("What holds no longer", error))
            return {}

    async def _read_short_term(
        self,
        fetched: Fetched,
        source: RecentMemories | MemoryStore | None,
        metadata: MemoryMetadata | None,
        admission: Admission,
    ) -> None:
        if source is None:
            return
        try:
            if hasattr(source, "get_recent"):
                await self._read_recent(fetched, cast(RecentMemories, source), admission)
            else:
                fetched.conversation = await self._conversation(source, metadata, admission)
        except InputError:
            raise
        except Exception as error:  # noqa: BLE001  # an agent without its memory is better than no agent
            fetched.warnings.append(_failed("Recent memories", error))
            return
        if not fetched.recent and not fetched.conversation:
            fetched.warnings.append("There are no recent memories.")

    async def _read_recent(self, fetched: Fetched, source: RecentMemories, admission: Admission) -> None:
        connect = getattr(source, "connect", None)
        if connect is not None:
            await connect()

        async def read(limit: int) -> Sequence[MemoryItem]:
            return await source.get_recent(hours=self.recent_hours, limit=limit)

        recent = await admission.enough(read, self.recent_limit)
        fetched.recent = trusted(recent[::-1], self.min_trust)
        fetched.timezone = getattr(source, "timezone", UTC)

    async def _conversation(
        self, store: MemoryStore, metadata: MemoryMetadata | None, admission: Admission
    ) -> list[MemoryItem]:
        """Return the newest turns up to the limit; what a fence leaves out takes no places."""
        if self.fence is None:
            return await self._turns(store, metadata, self.recent_limit)
        within = {"tokens": admission.tokens, "counter": admission.counter}
        said = await self._turns(store, metadata, EVERYTHING, **within)
        return whole_groups(newest(admission.of_conversation(said), self.recent_limit), said)

    async def _turns(
        self, store: MemoryStore, metadata: MemoryMetadata | None, limit: int, **within: Any
    ) -> list[MemoryItem]:
        """Return the newest turns; a store that counts tokens gives no more than lie ``within`` some."""
        if isinstance(store, Conversation):
            return trusted(await store.search(metadata=metadata, limit=limit), self.min_trust)
        if isinstance(store, Store):
            return await store.window(metadata=metadata, limit=limit, receipt=False, **within, **self._least())
        limit = min(limit, max(self.recent_limit, MOST_READ))
        found = await store.search(metadata=metadata, limit=limit + _REACH_OF_A_GROUP)
        older: list[MemoryItem] = []
        if len(found) > limit:  # Every system item stays; of summaries no more than the limit are ever shown.
            for kind, most in (("system", EVERYTHING), ("summary", limit)):
                older += (await store.search(metadata=metadata, memory_type=kind, limit=most))[::-1]
        ids = {item.id for item in found}
        ordered = as_said([*(item for item in older if item.id not in ids), *found[::-1]])
        return trusted(whole_groups(newest(ordered, limit), ordered), self.min_trust)

    @property
    def _limit(self) -> int:
        """How many long-term memories are looked at, where their number is all that bounds them."""
        return _USUAL_LIMIT if self.long_term_limit is None else self.long_term_limit

    async def _read_long_term(
        self, fetched: Fetched, query: str, metadata: MemoryMetadata | None, admission: Admission
    ) -> list[MemoryItem]:
        """Read what is remembered; return all that it was chosen from, as the store gave it."""
        store = self.long_term
        if store is None or self.long_term_limit == 0:
            return []
        considered: list[MemoryItem] = []
        try:
            if isinstance(store, Store) and self.long_term_limit is None:
                considered = await self._remember(fetched, store, query, metadata, admission)
            else:
                if query.strip():
                    fetched.long_term = await self._relevant(store, query, metadata, admission)
                fetched.newest = await self._newest(store, metadata, admission)
                considered = [*fetched.long_term, *fetched.newest]
                await self._remark(fetched, metadata)
        except InputError:
            raise
        except Exception as error:  # noqa: BLE001  # as above
            fetched.warnings.append(_failed("Long-term memories", error))
            return []
        if not fetched.long_term and not fetched.newest and not fetched.told:
            fetched.warnings.append("There are no long-term memories.")
        return considered

    async def _remember(
        self,
        fetched: Fetched,
        store: Store,
        query: str,
        metadata: MemoryMetadata | None,
        admission: Admission,
    ) -> list[MemoryItem]:
        """Read what is worth its tokens, as :func:`memoranda_context.assemble` does."""
        count = admission.count
        soul = count(SystemMemory(content=fetched.soul)) if fetched.soul.strip() else 0
        profile = count(HumanMemory(content=Parts(profile=fetched.profile).lasting_notes())) if fetched.profile else 0
        free = max(admission.tokens - soul - profile, 0)
        shares = Shares(free, count(HumanMemory(content=query)), free)
        shown = [*fetched.conversation, *fetched.recent]
        remembering = Remembering(store, admission, count, self._wanted(metadata))
        memories = await prompt_memories(
            remembering,
            shares,
            query,
            shown,
            partial(self._remarks, fetched, metadata),
            used=sum(count.of_each(shown)),
            repeated=[HumanMemory(content=query)],
        )
        found = memories.found
        fetched.told, fetched.long_term, fetched.left_out = memories.told, memories.long_term, found.left_out
        fetched.remarks, fetched.unsupported = memories.remarks, found.unsupported
        return [*remembering.originals.values(), *found.considered]

    async def _relevant(
        self, store: MemoryStore, query: str, metadata: MemoryMetadata | None, admission: Admission
    ) -> list[MemoryItem]:
        """Return what the search finds, best first."""
        wanted: dict[str, Any] = {"metadata": metadata}
        if isinstance(store, Store):
            return await admission.recalled(store, query, self._limit, **wanted, **self._least())
        capabilities: frozenset[Capability] = getattr(store, "capabilities", frozenset())
        if mode := next((mode for mode in _RANKED if mode in capabilities), None):
            wanted["mode"] = mode.value

        async def read(limit: int) -> list[MemoryItem]:
            return self._trusted_enough(await store.search(query=query, limit=limit, **wanted))

        return await admission.enough(read, self._limit)

    async def _newest(
        self, store: MemoryStore, metadata: MemoryMetadata | None, admission: Admission
    ) -> list[MemoryItem]:
        """Return the newest memories, newest first, which a conversation view answers the other way round."""
        no_system = {"memory_type": {"$ne": "system"}}  # It is an instruction, and may be another session's.

        async def read(limit: int) -> list[MemoryItem]:
            if isinstance(store, Store):
                found = await store.search(metadata=metadata, limit=limit, where=no_system, **self._least())
            else:
                found = self._trusted_enough(await store.search(metadata=metadata, limit=limit))
            return found[::-1] if isinstance(store, Conversation) else found

        return await admission.enough(read, self._limit)

    def _wanted(self, metadata: MemoryMetadata | None) -> dict[str, Any]:
        return {"metadata": metadata, **self._least()}

    def _least(self) -> dict[str, Any]:
        return {} if self.min_trust is None else {"min_trust": self.min_trust}

    def _trusted_enough(self, items: Sequence[MemoryItem]) -> list[MemoryItem]:
        return [item for item in items if self.min_trust is None or trust_of(item).rank >= self.min_trust.rank]


def _failed(what: str, error: Exception) -> str:
    """Return a warning for what could not be fetched. Foreign errors may quote anything: only their type is named."""
    reason = str(error) if isinstance(error, MemoryError) else f"{type(error).__name__}."
    logger.warning("%s could not be fetched: %s", what, type(error).__name__)
    return f"{what} could not be fetched: {reason}"
