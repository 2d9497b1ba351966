"""What became of the rows of a source: how many were read, left out and why."""

from dataclasses import dataclass, field

__all__ = ["ReadingReport"]


@dataclass(frozen=True)
class ReadingReport:
    """Rows of the source, those kept, duplicates dropped, and rows skipped by reason.

    `rows` is what the source holds: kept + duplicates + all that was skipped. `encodings` names the
    text encoding of each text file; `clipped` are kept rows whose rating is beyond the bounds. All
    numbers are exact and of raw data: for the curator, and no part of what is private.
    """

    rows: int
    kept: int
    duplicates: int
    skipped: dict[str, int] = field(default_factory=dict)
    encodings: dict[str, str] = field(default_factory=dict)
    clipped: int = 0

    def __str__(self) -> str:
        parts = [f"{self.rows} rows read, {self.kept} kept"]
        if self.duplicates:
            parts.append(f"{self.duplicates} older ratings of a pair dropped")
        parts += [f"{count} skipped: {reason}" for reason, count in self.skipped.items()]
        if self.clipped:
            parts.append(f"{self.clipped} ratings clipped to the bounds")
        return "; ".join(parts) + "."
