"""Sources of random bits: AES in counter mode, keyed by the operating system for every use."""

import hashlib
import os
from typing import Protocol

import numpy as np

from sfumato.core.validation import integer
from sfumato.privacy.statement import INSECURE, SYSTEM

__all__ = ["InsecureSeededSource", "Source", "SystemSource", "stated"]


class Source(Protocol):
    """A source of uniform, independent bits."""

    def fill(self, out: np.ndarray) -> None:
        """Overwrite a contiguous array with random bytes."""


class _Counter:
    """Key stream of AES-256 in counter mode, no part of which is used twice."""

    def __init__(self, key: bytes, start: bytes) -> None:
        # Where noise is drawn; a release that is read needs none.
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        self._stream = Cipher(algorithms.AES(key), modes.CTR(start)).encryptor()

    def fill(self, out: np.ndarray) -> None:
        """Overwrite an array with random bytes.

        Parameters
        ----------
        out : ndarray
            Contiguous array.
        """
        view = memoryview(out.view(np.uint8).reshape(-1))  # type: ignore[arg-type]
        self._stream.update_into(bytes(len(view)), view)

    def __repr__(self) -> str:  # a seed or key would give the noise away
        return f"{type(self).__name__}({stated(self)})"


class SystemSource(_Counter):
    """Secure bits that nobody can compute again: key and start come from the operating system.

    A process that forks gets keys of its own, so that no two draw the same bits.
    """

    def __init__(self) -> None:
        super().__init__(os.urandom(32), os.urandom(16))
        self._process = os.getpid()

    def fill(self, out: np.ndarray) -> None:
        if self._process != os.getpid():
            self.__init__()  # type: ignore[misc]
        super().fill(out)


class InsecureSeededSource(_Counter):
    """Reproducible bits for tests only: the same seed gives the same bits.

    Parameters
    ----------
    seed : int
        From 0 to 2**64 - 1.

    Notes
    -----
    Nothing made with it is private: whoever knows the seed can subtract the noise. Every statement
    of such a release says so.

    Examples
    --------
    >>> from sfumato.privacy.noise import discrete_laplace
    >>> one, two = (discrete_laplace(9, 4, source=InsecureSeededSource(1)) for _ in range(2))
    >>> (one == two).all()
    np.True_
    """

    def __init__(self, seed: int) -> None:
        seed = integer(0, 2**64 - 1).check("InsecureSeededSource", "seed", seed)
        super().__init__(hashlib.sha256(b"insecure %d" % seed).digest(), bytes(16))


def stated(source: Source | None) -> str:
    """Return what a statement says of a source: only that of the operating system is secure."""
    if source is not None and not callable(getattr(source, "fill", None)):
        raise ValueError("source must have a method fill(array); leave it out for secure bits.")
    return SYSTEM if source is None or type(source) is SystemSource else INSECURE
