"""The vector store against bare numpy: 100,000 vectors of 384 numbers, one thread.

python bench/vector.py [--ann]
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # One search thread: before numpy is loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import argparse
import gc
import time
import tracemalloc
from collections.abc import Sequence
from typing import Any

import numpy as np
from harness import Line, interleaved, line, report, run

from memoranda import HumanMemory, MemoryItem, MemoryMetadata
from memoranda.embeddings import Embeddings
from memoranda.store import copy_item
from memoranda_vector import VectorMemoryStore

ITEMS, DIMENSION, USERS, WANTED = 100_000, 384, 100, 10


class Given(Embeddings):
    """Looks vectors up by the number that a text ends with: embedding itself is not what is measured."""

    dimension = DIMENSION

    def __init__(self, vectors: np.ndarray) -> None:
        self._vectors = vectors
        self._queries = [vector.tolist() for vector in vectors[:100]]

    def embed(self, text: str) -> list[float]:
        return self._queries[int(text.rpartition(" ")[2])]

    async def aembed(self, text: str) -> list[float]:
        return self.embed(text)

    async def aembed_many(self, texts: Sequence[str]) -> Any:
        return self._vectors[[int(text.rpartition(" ")[2]) for text in texts]]


class OneByOne(Given):
    """Gives the vector of one text at a time, as a list: what an embedder has to have at least."""

    aembed_many = Embeddings.aembed_many

    def embed(self, text: str) -> list[float]:
        return self._vectors[int(text.rpartition(" ")[2])].tolist()


def made() -> tuple[np.ndarray, list[MemoryItem]]:
    """Return clustered unit vectors, as those of real texts are, and an item for each."""
    random = np.random.default_rng(7)
    centres = random.standard_normal((500, DIMENSION))
    vectors = centres[random.integers(0, 500, ITEMS)] + random.standard_normal((ITEMS, DIMENSION))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    items: list[MemoryItem] = [
        HumanMemory(content=f"turn {number}", metadata=MemoryMetadata(user_id=f"u{number % USERS}"))
        for number in range(ITEMS)
    ]
    return vectors, items


async def adding(vectors: np.ndarray, items: list[MemoryItem]) -> None:
    """Print how fast items are added with vectors that are there already, and how much memory that takes."""
    rates, processor_rates = [], []
    for _ in range(3):
        store = VectorMemoryStore(Given(vectors))
        gc.collect()
        started, processor = time.perf_counter(), time.process_time()
        await store.add_vectors(items, vectors)
        rates.append(ITEMS / (time.perf_counter() - started))
        processor_rates.append(ITEMS / (time.process_time() - processor))
        del store
    print(
        f"\nAdding with vectors given: {max(rates):,.0f} items/s, {max(processor_rates):,.0f} in a second of one "
        f"processor (goal >= 100,000)"
    )
    store = VectorMemoryStore(Given(vectors))
    tracemalloc.start()
    copies = [copy_item(item) for item in items]
    bare, _ = tracemalloc.get_traced_memory()
    del copies
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    await store.add_vectors(items, vectors)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    used, floor = after - before, vectors.nbytes + bare
    print(
        f"Memory: {used / 1e6:,.0f} MB for a matrix of {vectors.nbytes / 1e6:,.0f} MB and items of "
        f"{bare / 1e6:,.0f} MB: {used / floor:.2f}x (goal <= 1.3x)"
    )


async def embedding(vectors: np.ndarray, items: list[MemoryItem]) -> list[Line]:
    """Compare adding through an embedder that gives lists with making the same lists a matrix."""
    some = items[:10_000]

    def read() -> np.ndarray:
        matrix = np.empty((len(some), DIMENSION), dtype=np.float32)
        for start in range(0, len(some), 1_000):
            matrix[start : start + 1_000] = [vectors[number].tolist() for number in range(start, start + 1_000)]
        return matrix

    times = await interleaved(
        {"memoranda": lambda: VectorMemoryStore(OneByOne(vectors)).add_many(some), "floor": read}, rounds=9
    )
    return [line("add_many of 10,000 with an embedder that gives lists, against reading the lists", times)]


async def searching(store: VectorMemoryStore, vectors: np.ndarray) -> list[Line]:
    """Compare searches with the bare product, over everything and over one user of a hundred."""
    query = vectors[5]
    rows = np.flatnonzero(np.arange(ITEMS) % USERS == 7)
    scope = MemoryMetadata(user_id="u7")

    def product() -> list[int]:
        found = vectors @ query
        best = np.argpartition(found, -WANTED)[-WANTED:]
        return best[np.argsort(-found[best])].tolist()

    def gathered() -> list[int]:
        found = vectors[rows] @ query
        best = np.argpartition(found, -WANTED)[-WANTED:]
        return rows[best[np.argsort(-found[best])]].tolist()

    def same(found: Sequence[MemoryItem], wanted: list[int]) -> bool:
        return [item.content for item in found] == [f"turn {number}" for number in wanted]

    assert same(await store.search(query="query 5", limit=WANTED), product())
    assert same(await store.search(query="query 5", metadata=scope, limit=WANTED), gathered())
    whole = await interleaved(
        {"memoranda": lambda: store.search(query="query 5", limit=WANTED), "floor": product}, rounds=25, calls=2
    )
    scoped = await interleaved(
        {"memoranda": lambda: store.search(query="query 5", metadata=scope, limit=WANTED), "floor": gathered},
        rounds=25,
        calls=20,
    )
    return [
        line("the 10 nearest of 100,000, against a matrix product", whole, goal=">= 0.8x"),
        line("the 10 nearest of one user of 100, against a gather and a product", scoped, goal=">= 0.8x"),
    ]


async def approximate(vectors: np.ndarray, items: list[MemoryItem]) -> list[Line]:
    """Print the recall of the approximate index, and compare it with the bare product."""
    store = VectorMemoryStore(Given(vectors), ann=True, ann_above=0)
    await store.add_vectors(items, vectors)
    started = time.perf_counter()
    await store.search(query="query 0")
    print(f"\nApproximate index: built in {time.perf_counter() - started:.1f} s")
    found_in_all = 0
    for number in range(100):
        found = {item.content for item in await store.search(query=f"query {number}", limit=WANTED)}
        best = np.argsort(-(vectors @ vectors[number]))[:WANTED]
        found_in_all += len(found & {f"turn {row}" for row in best})
    print(f"Recall of the 10 nearest: {found_in_all / (100 * WANTED):.3f}")
    times = await interleaved(
        {
            "memoranda": lambda: store.search(query="query 5", limit=WANTED),
            "floor": lambda: np.argpartition(vectors @ vectors[5], -WANTED)[-WANTED:],
        },
        rounds=15,
        calls=2,
    )
    return [line("the 10 nearest of 100,000 by the approximate index", times)]


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ann", action="store_true", help="measure the approximate index too; building takes minutes")
    asked = parser.parse_args()
    vectors, items = made()
    await adding(vectors, items)
    report("Adding through an embedder", await embedding(vectors, items))
    store = VectorMemoryStore(Given(vectors))
    await store.add_vectors(items, vectors)
    report("Searching by meaning", await searching(store, vectors))
    del store
    if asked.ann:
        report("Searching approximately", await approximate(vectors, items))


if __name__ == "__main__":
    run(main)
