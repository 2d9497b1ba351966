"""Errors of a sketch that an estimator builds, in the name of the estimator that was asked."""

import contextlib
from collections.abc import Iterator

__all__ = ["naming"]


@contextlib.contextmanager
def naming(owner: str, inner: str) -> Iterator[None]:
    """Errors raised inside begin with the owner, not with the sketch it stands on.

    >>> with naming("SketchDensity", "KernelGrid"):
    ...     raise ValueError("KernelGrid: epsilon is too small.")
    Traceback (most recent call last):
    ValueError: SketchDensity: epsilon is too small.
    """
    try:
        yield
    except Exception as error:
        if error.args and str(error.args[0]).startswith(f"{inner}: "):
            said = str(error.args[0]).removeprefix(f"{inner}: ")
            error.args = (f"{owner}: {said}", *error.args[1:])
        raise
