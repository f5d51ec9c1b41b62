"""A receipt without the content of items that are gone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from memoranda.errors import CorruptStoreError
from memoranda.items import MemoryItem
from memoranda_receipts.records import QUESTION, Layout, Receipt, Shown, dumped_receipt, loaded_receipt


def cleaned_item(item: MemoryItem, gone: Mapping[str, MemoryItem | None]) -> MemoryItem | None:
    """Return the item of a receipt without the content of others; None if it holds none."""
    try:
        receipt = loaded_receipt(item.id, item.payload)
    except CorruptStoreError:
        return None
    changed = without_items(receipt, gone)
    if changed is receipt:
        return None
    return item.model_copy(update={"payload": dumped_receipt(changed), "sources": list(changed.contents or ())})


def without_items(receipt: Receipt, gone: Mapping[str, MemoryItem | None]) -> Receipt:
    """Return a receipt without the content of items that are gone; the receipt itself if it holds none.

    An added text that one of them repeats, such as the question, becomes a reference to the item.
    """
    contents = {name: held for name, held in (receipt.contents or {}).items() if name not in gone}
    texts = {item.content: item for item in gone.values() if item is not None and item.content.strip()}
    parameters = {
        name: value for name, value in receipt.parameters.items() if not (isinstance(value, str) and value in texts)
    }
    shown = list(receipt.shown)
    places = {entry.id: place for place, entry in enumerate(shown)}

    def reference(item: MemoryItem) -> list[int]:
        if item.id not in places:
            places[item.id] = len(shown)
            shown.append(Shown.of(item, QUESTION))
        return [places[item.id], 0, len(item.content)]

    def cleaned(part: Layout) -> Layout:
        if isinstance(part, int):
            return part
        if "of" in part and shown[part["of"]].id in gone:
            return {"of": part["of"], "keep": [], "set": {}, "pieces": []}
        pieces = [
            reference(texts[each]) if isinstance(each, str) and each in texts else each for each in part["pieces"]
        ]
        return {**part, "pieces": pieces}

    layout = None if receipt.layout is None else tuple(map(cleaned, receipt.layout))
    changed = replace(receipt, contents=contents or None, parameters=parameters, layout=layout, shown=tuple(shown))
    return receipt if changed == receipt else changed
