"""Compare searches by meaning that have filters with the ranking of everything, since the model knows no meanings."""

from __future__ import annotations

from memoranda.store import EVERYTHING, Store
from memoranda_testing.model.player import made
from memoranda_testing.model.reference import Model
from memoranda_testing.model.steps import Call

_PAGING = ("query", "mode", "limit", "offset")


async def meaning_difference(store: Store, model: Model, call: Call) -> str | None:
    """Return how a ranked search differs from the best of all items that match, as a sentence; None if it does not."""
    everything = {"query": call.arguments["query"], "mode": call.arguments["mode"], "limit": EVERYTHING}
    whole = Call("search_ranked", {**everything, "archived": None, "metadata": model.bounds})
    scores = {each.item.id: round(each.score, 6) for each in await made(store, whole)}
    filters = {name: value for name, value in call.arguments.items() if name not in _PAGING}
    matching = {item.id for item in model.handle(call.scope).scan(**{"archived": False, **filters})}
    if missing := sorted(item.id for item in model.handle().scan() if item.content.strip() and item.id not in scores):
        return f"without any filter, {missing} are not ranked at all."
    best = sorted((scores[each] for each in matching & scores.keys()), reverse=True)[: call.arguments["limit"]]
    found = [(each.item.id, round(each.score, 6)) for each in await made(store, call)]
    outside = [item_id for item_id, _ in found if item_id not in matching]
    if outside:
        return f"it returned {outside}, which do not match."
    other = [item_id for item_id, score in found if abs(scores[item_id] - score) > 2e-6]
    if other:
        return f"the scores of {other} are not those of a search without filters."
    if len(found) != len(best) or any(abs(one[1] - score) > 2e-6 for one, score in zip(found, best, strict=True)):
        return f"the best scores are {best}, and it returned {found}."
    return None
