"""The face of this package."""

from __future__ import annotations

from collections.abc import Iterable

from memoranda.errors import InputError
from memoranda.shapes import check_text, whole_number
from memoranda.tokens import TokenCounter, estimate_tokens
from memoranda.trust import Trust
from memoranda_facts.knowledge import Knowledge
from memoranda_facts.profile_lines import Outdated, outdated, profile_lines
from memoranda_facts.reading import checked_name, explained, supporting
from memoranda_facts.reconciling import Reconciling
from memoranda_facts.results import Fact, Why
from memoranda_facts.searching import FactIndex, Question, SlotIndex, profile_text, ranked_facts
from memoranda_facts.values import Moment, last_moment_of, same_text


class Facts(Reconciling):
    """What is known of one user, since when, from whom, and how it came to be known.

    ``store`` is a handle such as ``store.scoped(user_id="ada")``. The facts belong to its user and agent, whatever its
    session and task. ``schema`` says how many values a predicate has at a time, and which names mean the same.

    Every change returns a :class:`Receipt`, which :meth:`undo` takes. Any number of objects, in any number of
    processes, may change the facts of one user at the same time; none of their changes is lost.

    In a store that is opened with ``facts="rules"``, every reading counts what was added before it.

    When items are removed through the same store, the next reading takes back the facts that have no other source: see
    :meth:`reconcile`.
    """

    _slot_index: SlotIndex | None = None
    _lines: tuple[tuple[Knowledge, str, str, int, TokenCounter], list[str]] | None = None
    """The last profile, and what it was made of: one prompt after the other asks for it."""

    async def why(self, fact: Fact | str) -> Why:
        """Return the sources of a fact with their text, the rule that proposed it, what it replaced, and what decided.

        Raises InputError for an id that no fact has.
        """
        knowledge = await self._knowledge()
        named = knowledge.full_id(fact.id if isinstance(fact, Fact) else checked_name(fact, "fact"))
        found = knowledge.fact(named, self._present(knowledge))
        if found is None:
            raise InputError(f"There is no fact with the id {named!r}.", field="fact")
        ids = {source.item_id for record in supporting(knowledge, found) for source in record.sources}
        return explained(knowledge, found, await self._items(sorted(ids - {""})))

    async def search(self, query: str, *, limit: int = 10, history: bool = False) -> list[Fact]:
        """Return the facts that answer a question, best first; nothing if none does.

        Aliases and merged names count as the names that they stand for. Superseded, ended and retracted values are
        found only with ``history``.
        """
        most = whole_number(limit, "limit")
        if not check_text(query, "query").strip():
            return []
        knowledge = await self._knowledge()
        index = FactIndex(knowledge, self._slots_of(knowledge), self._present(knowledge), history=history)
        return await ranked_facts(self._log.store, self._log.folder, Question(query, index), index, most)

    async def follow(
        self, subject: str, *predicates: str, valid: Moment | None = None, known: Moment | None = None
    ) -> list[Fact]:
        """Walk from a subject along predicates, and return the facts of the last one.

        ``follow("Ada", "employer", "city")`` returns the city of Ada's employer. The object of each fact is the subject
        of the next step. ``valid`` and ``known`` are those of :meth:`state`.
        """
        if not predicates:
            raise InputError("follow() needs at least one predicate.", field="predicates")
        asked = None if valid is None else last_moment_of(valid, "valid")
        knowledge = await self._knowledge(known)
        moment = self._present(knowledge) if asked is None else asked
        index = FactIndex(knowledge, self._slots_of(knowledge), moment)
        found: list[Fact] = []
        reached = {index.names.root(checked_name(subject, "subject"))}
        for predicate in predicates:
            name = same_text(self.schema.predicate(checked_name(predicate, "predicate")).name)
            found = index.of_slots(reached, name)
            reached = {key for fact in found if (key := index.object_of(fact)) is not None}
        return found

    def _slots_of(self, knowledge: Knowledge) -> SlotIndex:
        """Return the index of what is known, that of the last call brought up to date if it can be."""
        names = self._newest.names
        if knowledge is not self._newest:
            return SlotIndex(knowledge, names)
        if self._slot_index is None or not self._slot_index.follows(knowledge, names):
            self._slot_index = SlotIndex(knowledge, names)
        return self._slot_index

    async def profile(
        self,
        *,
        tokens: int = 200,
        subject: str | None = None,
        counter: TokenCounter | None = None,
        min_trust: str | None = Trust.AGENT,
    ) -> str:
        """Return what holds now as a compact text of so many tokens, pinned predicates first, then what is newest.

        Each line has a date and a short id, which every method here takes instead of the long one. The text is made for
        prompts, so what only tools or strangers said is left out, unless ``min_trust`` says otherwise.
        """
        facts = await self.current(subject, min_trust=min_trust)
        return profile_text(facts, self.schema, whole_number(tokens, "tokens"), counter)

    async def profile_lines(
        self,
        *,
        tokens: int = 300,
        counter: TokenCounter | None = None,
        min_trust: str | None = Trust.AGENT,
        at: Moment | None = None,
    ) -> list[str]:
        """Return what holds now as short lines of so many tokens together, such as "lives in Porto (since 2026-03)".

        A line has no id and does not repeat the user's name; it names the value that was replaced ("before: Lisbon"),
        and what ended has a line of its own ("no longer …"). What only tools or strangers said is left out, unless
        ``min_trust`` says otherwise. With ``at``, the lines are those of that moment, as it was known then.
        """
        knowledge = await self._knowledge(at, min_trust)
        most = whole_number(tokens, "tokens")
        user = self._log.owner.user_id or self._log.owner.agent_id
        moment, count = self._moment(knowledge, at), counter or estimate_tokens
        asked = knowledge, *knowledge.span(moment), most, count
        if self._lines is None or self._lines[0] != asked:
            self._lines = asked, profile_lines(knowledge, user, moment, most, count)
        return list(self._lines[1])

    async def outdated(
        self, item_ids: Iterable[str], *, min_trust: str | None = Trust.AGENT, at: Moment | None = None
    ) -> dict[str, list[Outdated]]:
        """Return which facts of some source items do not hold any more, since when, and what holds instead.

        Items of which everything holds are not among the keys. ``str()`` of each is a short remark for a prompt, such
        as "no longer true: Porto since 2026-03". With ``at``, it is what one would have said at that moment.
        """
        knowledge = await self._knowledge(at, min_trust)
        return outdated(knowledge, list(item_ids), self._moment(knowledge, at))

    def _moment(self, knowledge: Knowledge, at: Moment | None) -> str:
        """Return a moment as a text; the present if it is None."""
        return self._present(knowledge) if at is None else last_moment_of(at, "at")
