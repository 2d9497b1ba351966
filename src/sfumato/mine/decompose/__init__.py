"""Decompositions: SVD, CUR, frequent directions of a stream, principal components."""

from typing import TYPE_CHECKING, Any

from sfumato.core.deprecation import on_demand

if TYPE_CHECKING:
    from sfumato.mine.decompose.columns_and_rows import CUR, cur
    from sfumato.mine.decompose.figure import plot_spectrum
    from sfumato.mine.decompose.frequent_directions import FrequentDirections
    from sfumato.mine.decompose.matrices import ratings_matrix
    from sfumato.mine.decompose.power import power_iteration
    from sfumato.mine.decompose.principal_components import PCA
    from sfumato.mine.decompose.private_components import PrivatePCA
    from sfumato.mine.decompose.singular_values import SVD, svd

__all__ = [
    "CUR",
    "PCA",
    "SVD",
    "FrequentDirections",
    "PrivatePCA",
    "cur",
    "plot_spectrum",
    "power_iteration",
    "ratings_matrix",
    "svd",
]

# Names are imported on first use, so that `import sfumato.mine` loads neither SciPy nor sklearn.
_imported = on_demand(
    __name__,
    {
        "columns_and_rows": ("CUR", "cur"),
        "figure": ("plot_spectrum",),
        "frequent_directions": ("FrequentDirections",),
        "matrices": ("ratings_matrix",),
        "power": ("power_iteration",),
        "principal_components": ("PCA",),
        "private_components": ("PrivatePCA",),
        "singular_values": ("SVD", "svd"),
    },
)


def __getattr__(name: str) -> Any:
    return _imported(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
