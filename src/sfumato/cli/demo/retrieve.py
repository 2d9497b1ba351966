"""The retrieval stop of `sfumato demo`: how often short codes find the true nearest neighbour."""

import time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from sfumato.retrieve import BinaryIndex, CodeEncoder, learned, project_and_sign, qolsh, tight_frame

__all__ = ["retrieval"]

DIMENSION, QUERIES = 64, 200
NAMES = ("code", "bytes", "nearest found first", "among 10", "ms a query")


def retrieval(console: Console, vectors: int = 50_000) -> list[dict[str, Any]]:
    """Index generated vectors with several codes; print the table and return its rows."""
    base, queries = _vectors(vectors)
    truth = (queries @ base.T).argmax(axis=1)
    console.print(
        f"[bold cyan]Who is nearest, from {BITS} bits?[/]  {vectors:,} generated vectors of "
        f"{DIMENSION} numbers, {4 * DIMENSION} bytes each; BinaryIndex(encoder=...).search(queries)"
    )
    rows = [_measured(name, make, base, queries, truth) for name, make in CODES.items()]
    rows.append(_measured("the last, 100 ranked exactly", LAST, base, queries, truth, exact=True))
    table = Table(*NAMES, box=None, pad_edge=False)
    for row in rows:
        recalls = (f"{row[key]:.0%}" for key in ("first", "ten"))
        table.add_row(row["code"], str(row["bytes"]), *recalls, f"{row['ms']:.2f}")
    console.print(table)
    console.print("Codes are small, not secret: a vector can be rebuilt from its code.\n")
    return rows


BITS = 128
LAST = learned(bits=BITS)
CODES: dict[str, CodeEncoder] = {
    "random directions": project_and_sign(bits=BITS),
    "tight frame": tight_frame(bits=BITS),
    "10 bits flipped (qoLSH)": qolsh(bits=BITS, flips=10),
    "and centre, factor": qolsh(bits=BITS, flips=40, center=True, factor="nearest"),
    "learned": LAST,
}


def _vectors(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors of uneven directions around one centre, as embeddings are."""
    draws = np.random.default_rng(3)
    scales = np.arange(1, DIMENSION + 1) ** -0.5
    made = draws.normal(size=(count + QUERIES, DIMENSION)) * scales + 0.2
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    return made[:count].astype(np.float32), made[count:].astype(np.float32)


def _measured(
    name: str,
    encoder: CodeEncoder,
    base: np.ndarray,
    queries: np.ndarray,
    truth: np.ndarray,
    exact: bool = False,
) -> dict[str, Any]:
    index = BinaryIndex(bits=BITS, encoder=encoder, keep_vectors=exact)
    index.add(np.arange(len(base)), base)
    options: dict[str, Any] = dict(shortlist=100, rerank="exact") if exact else {}
    index.search(queries[:1], 10, **options)
    begin = time.perf_counter()
    _, found = index.search(queries, 10, **options)
    spent = (time.perf_counter() - begin) / QUERIES * 1e3
    hit = found == truth[:, None]
    return {
        "code": name,
        "bytes": index.nbytes_per_vector,
        "first": float(hit[:, 0].mean()),
        "ten": float(hit.any(axis=1).mean()),
        "ms": spent,
    }
