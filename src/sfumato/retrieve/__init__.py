"""Nearest neighbours on binary codes: encoders, an index that scans, and tables of bands."""

from sfumato.retrieve._buckets import Buckets, band_keys
from sfumato.retrieve._index_file import IndexFormatError
from sfumato.retrieve._load import holds_index, load
from sfumato.retrieve.amplify import Sensitive, candidate_probability
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
    "Buckets",
    "Codes",
    "Encoder",
    "IndexFormatError",
    "LshIndex",
    "Sensitive",
    "anti_sparse",
    "band_keys",
    "candidate_probability",
    "holds_index",
    "learned",
    "load",
    "optimal",
    "project_and_sign",
    "qolsh",
    "tight_frame",
]
