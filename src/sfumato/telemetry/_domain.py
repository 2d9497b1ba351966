"""Values that are known beforehand: categories, or the bins between edges, one cell each."""

import hashlib
import math
import struct
from itertools import pairwise
from typing import Any

import numpy as np

from sfumato.telemetry._values import Values

__all__ = [
    "category_cells",
    "check_categories",
    "checked_categories",
    "checked_edges",
    "domain_mark",
]

MOST = 2**16  # cells


def checked_categories(owner: str, categories: Any) -> tuple[str, ...]:
    """One to 65536 different texts."""
    if isinstance(categories, str | bytes) or not hasattr(categories, "__iter__"):
        raise ValueError(f"{owner}: categories must be a list of texts.")
    texts = tuple(categories)
    if not all(isinstance(text, str) for text in texts) or not 1 <= len(texts) <= MOST:
        raise ValueError(f"{owner}: categories must be a list of 1 to {MOST} texts.")
    if len(set(texts)) < len(texts):
        raise ValueError(f"{owner}: categories must all be different; one stands there twice.")
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        raise ValueError(f"{owner}: categories must be valid Unicode.") from None
    return tuple(str(text) for text in texts)


def checked_edges(owner: str, edges: Any) -> tuple[float, ...]:
    """Two to 65537 finite numbers, each above the one before."""
    try:
        given = tuple(edges)
        texts = any(isinstance(edge, str | bytes) for edge in given)  # which float() would take
        numbers = () if texts else tuple(float(edge) + 0.0 for edge in given)  # -0.0 becomes 0.0
    except (TypeError, ValueError, OverflowError):
        numbers = ()
    rising = all(a < b for a, b in pairwise(numbers))
    if not 2 <= len(numbers) <= MOST + 1 or not rising or not all(map(math.isfinite, numbers)):
        raise ValueError(
            f"{owner}: edges must be 2 to {MOST + 1} finite numbers, each above the one before."
        )
    return numbers


def domain_mark(categories: tuple[str, ...] | None, edges: tuple[float, ...] | None) -> str:
    """What a line of parameters says of the domain: "-", or its kind and SHA-256."""
    if categories is not None:
        texts = [text.encode() for text in categories]
        told = b"".join(struct.pack(">I", len(text)) + text for text in texts)
        return "categories:" + hashlib.sha256(told).hexdigest()
    if edges is not None:
        return "edges:" + hashlib.sha256(struct.pack(f">{len(edges)}d", *edges)).hexdigest()
    return "-"


def category_cells(values: Values, categories: tuple[str, ...]) -> np.ndarray:
    """The cell of every distinct value, -1 for one that is none of the categories."""
    places = {text.encode(): at for at, text in enumerate(categories)}
    return np.array([places.get(text, -1) for text in values.texts()], np.int32)


def check_categories(values: Values, categories: tuple[str, ...]) -> None:
    """Raise where a row holds none of the categories."""
    wrong = np.flatnonzero(category_cells(values, categories)[values.codes] < 0)
    if wrong.size:
        raise ValueError(
            f"values: row {wrong[0]} is none of the {len(categories)} categories; let one category "
            "stand for all others, and give that."
        )
