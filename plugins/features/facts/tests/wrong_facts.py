"""Implementations of facts that are each wrong in one way, with the case that has to notice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from memoranda_facts import Candidate, Fact, Facts, Receipt
from memoranda_facts.knowledge import Knowledge
from memoranda_facts.records import Record, loaded_record
from memoranda_facts.values import Moment


class Rewritten(Facts):
    """The base of those that see other records than there are."""

    def seen(self, records: Sequence[Record]) -> Iterable[Record]:
        return records

    async def _knowledge_of_rows(self) -> Knowledge:
        true = await super()._knowledge_of_rows()
        return Knowledge(self.seen(true.records), self.schema)


class LastWins(Rewritten):
    """What was recorded last holds, whenever it is said to be valid."""

    def seen(self, records: Sequence[Record]) -> Iterable[Record]:
        return [replace(record, valid_from=record.at) if record.kind == "set" else record for record in records]


class IgnoresEnds(Rewritten):
    """What has ended goes on."""

    def seen(self, records: Sequence[Record]) -> Iterable[Record]:
        return [record for record in records if record.kind != "end"]


class IgnoresTrust(Rewritten):
    """Everything is trusted alike."""

    def seen(self, records: Sequence[Record]) -> Iterable[Record]:
        return [replace(record, trust="user") for record in records]


class IgnoresValidTo(Rewritten):
    """A bounded value goes on for ever."""

    def seen(self, records: Sequence[Record]) -> Iterable[Record]:
        return [replace(record, valid_to=None) if record.kind == "set" else record for record in records]


class UndoesOnce(Rewritten):
    """An undo cannot be undone."""

    def seen(self, records: Sequence[Record]) -> Iterable[Record]:
        undos = {record.change for record in records if record.undoes}
        return [record for record in records if record.undoes not in undos]


class TakesAllForTheUsers(Facts):
    """Whatever a handle writes is trusted as a user is."""

    async def _knowledge_of_rows(self) -> Knowledge:
        true = await super()._knowledge_of_rows()
        return Knowledge([replace(record, trust="user") for record in true.records], self.schema)


class ReadsOnlyWhole(Facts):
    """One item that cannot be read makes all of them unreadable."""

    async def _knowledge_of_rows(self) -> Knowledge:
        for row in await self._log.rows():
            loaded_record(row.item_id, row.text)
        return await super()._knowledge_of_rows()


class IgnoresDependencies(Rewritten):
    """Nothing is ever unsure."""

    def seen(self, records: Sequence[Record]) -> Iterable[Record]:
        return [replace(record, depends_on=()) for record in records]


class CorrectsLikeAnEnd(Rewritten):
    """What is corrected held until then."""

    def seen(self, records: Sequence[Record]) -> Iterable[Record]:
        return [
            replace(record, targets=(), valid_from=record.at) if record.kind == "correct" else record
            for record in records
        ]


class IgnoresConfirmations(Rewritten):
    """A confirmation adds nothing."""

    def seen(self, records: Sequence[Record]) -> Iterable[Record]:
        return [record for record in records if record.kind != "confirm"]


class ForgetsWhatWasBelieved(Facts):
    """What was known then is what is known now."""

    async def state(self, *, known: Moment | None = None, **asked: Any) -> list[Fact]:
        return await super().state(**asked)


class LooksAtTheStart(Facts):
    """A coarse date is asked for as its first moment."""

    async def at(self, moment: Moment, *args: Any, **asked: Any) -> list[Fact]:
        coarse = isinstance(moment, str) and len(moment) == 7
        return await super().at(f"{moment}-01T00:00:00+00:00" if coarse else moment, *args, **asked)


class WritesTwice(Facts):
    """Keys do not matter."""

    async def set(self, *args: Any, **named: Any) -> Receipt:
        count = getattr(self, "count", 0) + 1
        self.count = count
        return await super().set(*args, **{**named, "key": f"{count}-{id(self)}"})


class ExpectsNothing(Facts):
    """Expectations are not compared."""

    async def set(self, *args: Any, **named: Any) -> Receipt:
        return await super().set(*args, **{**named, "expect": None})


class OneAtATime(Facts):
    """A change set is several changes."""

    async def apply(self, candidates: Sequence[Candidate], *, trust: str | None = None) -> Receipt:
        receipts = [await super(OneAtATime, self).apply([each], trust=trust) for each in candidates]
        return replace(receipts[-1], entries=tuple(entry for each in receipts for entry in each.entries))


class KeepsWhatLostItsSources(Facts):
    """Purging a source takes nothing back."""

    async def settle(self) -> None:
        """Reconcile nothing."""


class DeletesOnRetraction(Facts):
    """What is retracted is purged, and cannot come back."""

    async def retract(self, fact: Fact | str, **named: Any) -> Receipt:
        receipt = await super().retract(fact, **named)
        await self.store.purge(fact.id if isinstance(fact, Fact) else fact)
        return receipt


class ShowsGuesses(Facts):
    """A question always has answers."""

    async def search(self, query: str, *, limit: int = 10, history: bool = False) -> list[Fact]:
        return (await super().search(query, limit=limit, history=history) or await self.current())[:limit]


class ShowsTheStale(Facts):
    """Search does not tell what is over from what holds."""

    async def search(self, query: str, *, limit: int = 10, history: bool = False) -> list[Fact]:
        return await super().search(query, limit=limit, history=True)


class FollowsOneStep(Facts):
    """Only the first predicate is followed."""

    async def follow(self, subject: str, *predicates: str, **asked: Any) -> list[Fact]:
        return await super().follow(subject, predicates[0], **asked)


class LongProfiles(Facts):
    """The budget of a profile is not kept."""

    async def profile(self, *, tokens: int = 200, **asked: Any) -> str:
        return await super().profile(tokens=tokens + 50, **asked)


class TrustsTheCaller(Facts):
    """A fact is trusted as its caller says, whatever its sources."""

    async def set(self, *args: Any, **named: Any) -> Receipt:
        if named.get("trust"):
            named["sources"] = "manual"
        return await super().set(*args, **named)


WRONG = [
    (LastWins, "a_later_valid_time_supersedes_an_earlier_one"),
    (IgnoresEnds, "an_earlier_value_does_not_come_back_when_its_successor_ends"),
    (IgnoresTrust, "a_later_but_less_trusted_value_is_disputed"),
    (IgnoresTrust, "histories_of_one_value_agree_with_the_oracle"),
    (IgnoresValidTo, "a_bounded_value_splits_the_one_around_it"),
    (IgnoresValidTo, "histories_of_many_values_agree_with_the_oracle"),
    (UndoesOnce, "every_kind_of_change_can_be_undone_and_done_again"),
    (TakesAllForTheUsers, "a_less_trusted_undo_only_disputes"),
    (TakesAllForTheUsers, "a_less_trusted_merge_renames_nobody"),
    (ReadsOnlyWhole, "an_unreadable_item_hides_nothing"),
    (IgnoresDependencies, "dependents_become_unsure"),
    (CorrectsLikeAnEnd, "a_correction_was_never_true"),
    (IgnoresConfirmations, "every_kind_of_change_can_be_undone_and_done_again"),
    (ForgetsWhatWasBelieved, "what_was_believed_is_kept"),
    (LooksAtTheStart, "a_coarse_date_is_asked_for_as_its_end"),
    (WritesTwice, "the_same_key_is_written_once"),
    (ExpectsNothing, "expectations_are_compared_and_set"),
    (ExpectsNothing, "of_several_with_the_same_expectation_one_succeeds"),
    (OneAtATime, "two_values_of_one_change_are_disputed"),
    (KeepsWhatLostItsSources, "facts_go_with_their_sources"),
    (DeletesOnRetraction, "every_kind_of_change_can_be_undone_and_done_again"),
    (ShowsGuesses, "a_question_finds_what_holds_and_nothing_else"),
    (ShowsTheStale, "a_question_finds_what_holds_and_nothing_else"),
    (FollowsOneStep, "references_are_followed"),
    (LongProfiles, "a_profile_fits_its_budget"),
    (TrustsTheCaller, "a_fact_is_trusted_as_its_least_trusted_source"),
]
"""Each wrong implementation, and the case that catches it."""
