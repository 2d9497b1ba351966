"""Nearest neighbours on binary codes: encoders, an index that scans, and tables of bands."""

from sfumato.retrieve._index_file import IndexFormatError
from sfumato.retrieve._load import holds_index, load
from sfumato.retrieve.codes import (
    Codes,
    Encoder,
    anti_sparse,
    learned,
    optimal,
    project_and_sign,
    qolsh,
    tight_frame,
)
from sfumato.retrieve.index import BinaryIndex
from sfumato.retrieve.tables import LshIndex

__all__ = [
    "BinaryIndex",
    "Codes",
    "Encoder",
    "IndexFormatError",
    "LshIndex",
    "anti_sparse",
    "holds_index",
    "learned",
    "load",
    "optimal",
    "project_and_sign",
    "qolsh",
    "tight_frame",
]
