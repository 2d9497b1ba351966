"""The telemetry stop of `sfumato demo`: counts of words that nobody sent, beside the truth."""

from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from sfumato.telemetry import Counts, Rappor, ReportEncoder, decode

__all__ = ["telemetry"]

NAMES = ("word", "true count", "estimated", "95 % interval", "found")
SYLLABLES = ("ba", "ce", "di", "fo", "gu", "la", "me", "ni", "po", "ru")
WORDS, LISTED, ABSENT = 400, 90, 10
SHOWN = (0, 1, 2, 5, 10, 20, 40, 80)
SCHEME = Rappor.for_epsilon(3, bits=64, cohorts=32, metric="favourite word")


def telemetry(console: Console, reports: int = 200_000) -> list[dict[str, Any]]:
    """Encode generated words, decode the reports; print the table and return its rows."""
    words, drawn = _words(), _drawn(reports)
    console.print(
        f"[bold cyan]Which words do {reports:,} people type, if none sends a word?[/]  Each sends "
        f"{SCHEME.payload_bytes} bytes of noisy bits, epsilon {SCHEME.epsilon_permanent:.3g}; "
        "decode(Counts(params).update(reports), candidates)"
    )
    sent = ReportEncoder(SCHEME).encode_many(words[drawn])
    candidates = [*words[:LISTED], *(f"never{each}" for each in words[:ABSENT])]
    found = decode(Counts(SCHEME).update(sent), candidates)
    truth = np.zeros(len(candidates), np.int64)
    truth[:LISTED] = np.bincount(drawn, minlength=WORDS)[:LISTED]
    rows = [_row(found, truth, at) for at in (*SHOWN, LISTED)]
    _print(console, rows)
    detected = int(found.detected[:LISTED].sum())
    console.print(
        f"{detected} of {LISTED} words found, {int(found.detected[LISTED:].sum())} of {ABSENT} "
        f"that nobody has. {found.other:,.0f} reports are of other words; the truth is "
        f"{reports - truth.sum():,}.\n"
    )
    return rows


def _words() -> np.ndarray:
    """Different words of three syllables, the most frequent first."""
    order = np.random.default_rng(11).permutation(len(SYLLABLES) ** 3)[:WORDS]
    digits = np.stack([order // 100, order // 10 % 10, order % 10], axis=1)
    return np.array(["".join(SYLLABLES[digit] for digit in word) for word in digits.tolist()])


def _drawn(reports: int) -> np.ndarray:
    """Zipf: the frequency of word r is proportional to 1 / r."""
    cumulative = np.cumsum(1 / np.arange(1, WORDS + 1))
    drawn = np.random.default_rng(12).random(reports) * cumulative[-1]
    return np.asarray(np.searchsorted(cumulative, drawn))


def _row(found: Any, truth: np.ndarray, at: int) -> dict[str, Any]:
    return {
        "word": str(found.value[at]),
        "truth": int(truth[at]),
        "estimate": float(found.estimate[at]),
        "low": float(found.low[at]),
        "high": float(found.high[at]),
        "found": bool(found.detected[at]),
    }


def _print(console: Console, rows: list[dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False)
    for name in NAMES:
        table.add_column(name, justify="left" if name == "word" else "right")
    for row in rows:
        interval = f"{row['low']:,.0f} to {row['high']:,.0f}"
        counts = (f"{row[name]:,.0f}" for name in ("truth", "estimate"))
        table.add_row(row["word"], *counts, interval, "yes" if row["found"] else "no")
    console.print(table)
