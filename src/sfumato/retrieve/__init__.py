"""Nearest-neighbour search: binary-code encoders, an index that scans codes, and LSH tables."""

from sfumato.core.deprecation import renamed
from sfumato.retrieve.binary.index import BinaryIndex
from sfumato.retrieve.encoders.base import CodeEncoder, Codes
from sfumato.retrieve.encoders.factories import (
    anti_sparse,
    optimal,
    project_and_sign,
    qolsh,
    tight_frame,
)
from sfumato.retrieve.encoders.learned import learned
from sfumato.retrieve.file_format import IndexFormatError
from sfumato.retrieve.io import holds_index, load
from sfumato.retrieve.lsh.amplification import Sensitive, candidate_probability
from sfumato.retrieve.lsh.buckets import Buckets, band_keys
from sfumato.retrieve.lsh.index import LshIndex

__all__ = [
    "BinaryIndex",
    "Buckets",
    "CodeEncoder",
    "Codes",
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

_RENAMED = {"Encoder": "CodeEncoder"}
__getattr__ = renamed(__name__, _RENAMED)
