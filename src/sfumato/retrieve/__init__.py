"""Nearest-neighbour search: binary-code encoders, an index that scans codes, and LSH tables.

Each name is imported when it is first used.
"""

from sfumato.core.deprecation import on_demand, renamed

TYPE_CHECKING = False
if TYPE_CHECKING:
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
    from sfumato.retrieve.lsh.width import suggest_width

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
    "suggest_width",
    "tight_frame",
]

_RENAMED = {"Encoder": "CodeEncoder"}

__getattr__ = renamed(
    __name__,
    _RENAMED,
    on_demand(
        __name__,
        {
            "binary.index": ("BinaryIndex",),
            "encoders.base": (
                "CodeEncoder",
                "Codes",
            ),
            "encoders.factories": (
                "anti_sparse",
                "optimal",
                "project_and_sign",
                "qolsh",
                "tight_frame",
            ),
            "encoders.learned": ("learned",),
            "file_format": ("IndexFormatError",),
            "io": (
                "holds_index",
                "load",
            ),
            "lsh.amplification": (
                "Sensitive",
                "candidate_probability",
            ),
            "lsh.buckets": (
                "Buckets",
                "band_keys",
            ),
            "lsh.index": ("LshIndex",),
            "lsh.width": ("suggest_width",),
        },
    ),
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
