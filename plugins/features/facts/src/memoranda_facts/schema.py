"""What a program declares: predicates, their kinds and aliases, and other names of subjects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

from memoranda.errors import InputError, unknown_name
from memoranda_facts.records import SAME_AS
from memoranda_facts.values import Object, Ref, as_object, same_text

Kind = Literal["one", "many", "event"]
"""How many values of a predicate hold at a time: one, many, or each for good, since it happened."""

_MOST_SPELLINGS = 1_024
"""How many names of predicates are kept as they were spelled."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """A declared predicate.

    ``normalise`` turns a value into its usual form before it is compared and stored; if it raises ValueError, the value
    is refused. A ``pinned`` predicate comes first in profiles. With ``refers``, values are references to other
    subjects.
    """

    name: str
    kind: Kind = "many"
    aliases: tuple[str, ...] = ()
    normalise: Callable[[Object], Object] | None = None
    pinned: bool = False
    refers: bool = False

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise unknown_name(f"kind of the predicate {self.name!r}", self.kind, get_args(Kind), field="kind")
        if not isinstance(self.aliases, tuple):
            raise InputError(f"The aliases of {self.name!r} are a tuple of names.", field="aliases")


class Schema:
    """The declared predicates, and the other names of subjects.

    A predicate that is not declared is ``many``: a new value never replaces another. Names are compared without regard
    to case, surrounding spaces, and underscores or spaces between words. A name that means two predicates is an
    InputError. ``favorite_*`` declares all predicates that begin so and are not declared themselves.
    """

    def __init__(self, predicates: Iterable[Predicate] = (), *, subjects: Mapping[str, str] | None = None) -> None:
        self.predicates = tuple(predicates)
        self.subjects = dict(subjects or {})
        self._predicates: dict[str, Predicate] = {
            same_text(SAME_AS): Predicate(SAME_AS, "one", refers=True),
        }
        for predicate in self.predicates:
            for name in (predicate.name, *predicate.aliases):
                if self._predicates.setdefault(same_text(name), predicate) is not predicate:
                    raise InputError(f"The name {name!r} is declared for two predicates.", field="predicates")
        self._beginnings = {
            f"{same_text(each.name.removesuffix('*'))} ": each for each in self.predicates if each.name.endswith("_*")
        }
        self._by_spelling: dict[str, Predicate] = {}
        self._subjects = {same_text(alias): name for alias, name in self.subjects.items()}

    def predicate(self, name: str) -> Predicate:
        """Return the predicate of a name or an alias; one of kind ``many`` if it is not declared."""
        known = self._by_spelling.get(name)
        if known is None:
            known = self._predicates.get(same_text(name)) or self._by_beginning(name.strip())
            if len(self._by_spelling) >= _MOST_SPELLINGS:
                self._by_spelling.clear()
            self._by_spelling[name] = known
        return known

    def _by_beginning(self, name: str) -> Predicate:
        for beginning, predicate in self._beginnings.items():
            if same_text(name).startswith(beginning):
                return replace(predicate, name=name, aliases=())
        return Predicate(name)

    def subject(self, name: str) -> str:
        """Return the name that a subject goes by."""
        return self._subjects.get(same_text(name), name.strip()) if self._subjects else name.strip()

    def names_of(self, name: str) -> tuple[str, ...]:
        """Return a predicate's name and its aliases."""
        found = self.predicate(name)
        return (found.name, *found.aliases)

    def value(self, predicate: str, given: object) -> Object:
        """Return a value as it is stored: normalised, and a reference where the predicate refers.

        Raises InputError for a value that is no text, number, date or reference, or that the normaliser refuses.
        """
        declared, value = self.predicate(predicate), as_object(given)
        if declared.normalise is not None:
            try:
                value = as_object(declared.normalise(value))
            except ValueError as error:
                raise InputError(f"The normaliser of {declared.name!r} refuses this value.", field="object") from error
        if declared.refers and isinstance(value, str):
            value = Ref(value)
        return Ref(self.subject(value.subject)) if isinstance(value, Ref) else value
