"""What comes in: files, frames and streams become Arrow batches."""

from sfumato.data.batches import Batches, Piece, Reading, read_batches

__all__ = ["Batches", "Piece", "Reading", "read_batches"]
