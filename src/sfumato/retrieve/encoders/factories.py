"""Encoders of vectors as codes of bits: plain signs, tight frames, and better choices of bits.

Each function makes a `CodeEncoder`, and takes its options too: center, factor and short.
"""

from typing import TypedDict, Unpack

from sfumato.retrieve.encoders.base import CodeEncoder, Codes
from sfumato.retrieve.encoders.learned import learned
from sfumato.retrieve.encoders.sign_search import (
    AntiSparseEncoder,
    OptimalEncoder,
    SignEncoder,
    SignFlipEncoder,
    TightFrameEncoder,
)

__all__ = [
    "CodeEncoder",
    "Codes",
    "EncoderOptions",
    "anti_sparse",
    "learned",
    "optimal",
    "project_and_sign",
    "qolsh",
    "tight_frame",
]


class EncoderOptions(TypedDict, total=False):
    """What every encoder takes besides its own parameters; see `CodeEncoder`."""

    center: bool
    factor: str | None
    short: bool


def project_and_sign(
    bits: int = 256, *, directions: str = "random", seed: int = 0, **options: Unpack[EncoderOptions]
) -> CodeEncoder:
    """The side of each of `bits` planes on which a vector lies.

    Parameters
    ----------
    bits : int, default=256
        From 1 to 65,536.
    directions : str, default="random"
        Normals of the planes: "random" (independent Gaussian), "orthogonal" (at most as many as the
        dimension: less variance) or "super-bit" (orthogonal in batches of the dimension); seed;
        options of `CodeEncoder`.
    seed : int, default=0
        TODO.
    **options : dict
        TODO.

    Returns
    -------
    CodeEncoder
        The side of each of `bits` planes on which a vector lies.

    Notes
    -----
    **Guarantee.** Two codes differ in each bit with probability angle / pi.

    References
    ----------
    .. [1] Charikar 2002; thesis (5.1); super-bits: Ji, Li, Yan, Zhang and Tian 2012.

    Examples
    --------
    >>> encoder = project_and_sign(64).fit([[1, 0, 0]])
    >>> encoder.encode([[1, 0, 0], [2, 0, 0]]).words.shape
    (2, 1)
    """
    return SignEncoder(bits=bits, directions=directions, seed=seed, **_all(options))


def tight_frame(
    bits: int = 256, *, seed: int = 0, **options: Unpack[EncoderOptions]
) -> CodeEncoder:
    """The signs along a tight frame, W W^T = I, from which vectors are rebuilt more truly.

    Thesis (5.9).

    Parameters
    ----------
    bits : int, default=256
        From 1 to 65,536; seed; options of `CodeEncoder`.
    seed : int, default=0
        TODO.
    **options : dict
        TODO.

    Returns
    -------
    CodeEncoder
        The signs along a tight frame, W W^T = I, from which vectors are rebuilt more truly.

    Notes
    -----
    **Guarantee.** Where bits <= dimension (the directions are then orthonormal) no code of the same
    directions comes closer to a vector.

    Examples
    --------
    >>> encoder = tight_frame(64).fit([[1, 0, 0]])
    >>> rebuilt = encoder.reconstruct(encoder.encode([[1, 0, 0]]))
    >>> bool(rebuilt[0, 0] > 0.9)
    True
    """
    return TightFrameEncoder(bits=bits, seed=seed, **_all(options))


def anti_sparse(
    bits: int = 256, *, seed: int = 0, **options: Unpack[EncoderOptions]
) -> CodeEncoder:
    """The signs of the v with W v = x whose largest entry is smallest, on a tight frame W.

    Parameters
    ----------
    bits : int, default=256
        From the dimension to 1,024 (a vector takes some 5 microseconds for 8 dimensions and 16
        bits, and some 5 milliseconds for 128 and 256: qolsh comes closer to it in a thousandth of
        that); seed; options of `CodeEncoder`.
    seed : int, default=0
        TODO.
    **options : dict
        TODO.

    Returns
    -------
    CodeEncoder
        The signs of the v with W v = x whose largest entry is smallest, on a tight frame W.

    Notes
    -----
    **Guarantee.** The linear programme is solved exactly, in float64; v has bits - dimension + 1
    entries at its bound. Should a vector take more than 50 * bits steps, which only many ties can
    cause, its code is that of the step reached.

    References
    ----------
    .. [1] Jegou, Furon and Fuchs 2012; thesis (5.8).

    Examples
    --------
    >>> encoder = anti_sparse(16).fit([[1, 0, 0]])
    >>> encoder.encode([[1, 0, 0], [2, 0, 0]]).words.shape
    (2, 1)
    """
    return AntiSparseEncoder(bits=bits, seed=seed, **_all(options))


def optimal(bits: int = 16, *, seed: int = 0, **options: Unpack[EncoderOptions]) -> CodeEncoder:
    """Of all codes the one whose W b, on a tight frame W, is closest to the vector in angle.

    Thesis (5.5) and (5.6).

    Parameters
    ----------
    bits : int, default=16
        From 1 to 20 (time doubles with each); seed; options of `CodeEncoder`.
    seed : int, default=0
        TODO.
    **options : dict
        TODO.

    Returns
    -------
    CodeEncoder
        Of all codes the one whose W b, on a tight frame W, is closest to the vector in angle.

    Notes
    -----
    **Guarantee.** Exact up to float32 rounding: every pair of b and -b is tried.

    Examples
    --------
    >>> encoder = optimal(8).fit([[1, 0]])
    >>> encoder.encode([[1, 0], [2, 0]]).words.shape
    (2, 1)
    """
    return OptimalEncoder(bits=bits, seed=seed, **_all(options))


def qolsh(
    bits: int = 256,
    *,
    flips: int = 10,
    together: int = 1,
    seed: int = 0,
    **options: Unpack[EncoderOptions],
) -> CodeEncoder:
    """Signs along a tight frame W, of which those are flipped that turn W b to the vector most.

    Thesis (5.10) to (5.12), and 6.1 for flips of several bits together.

    Parameters
    ----------
    bits : int, default=256
        From 1 to 4,096.
    flips : int, default=10
        Steps of one flip from 0 to 65,536.
    together : int, default=1
        2 for as many steps after these that flip the best pair, or the best bit where that is
        better (bits**2 / 2 pairs are tried in each); seed; options of `CodeEncoder`. Flipped bits
        rebuild the vector better and are worse to compare by Hamming distance: short=True keeps the
        signs for that.
    seed : int, default=0
        TODO.
    **options : dict
        TODO.

    Returns
    -------
    CodeEncoder
        TODO.

    Notes
    -----
    **Guarantee.** The cosine between W b and the vector is never below that of `tight_frame`; each
    step raises it, and it ends where no flip would, or after `flips` steps. With together=2 it is
    never below that of together=1, and where it ends before its steps are used up no two flips
    would raise it either.

    Examples
    --------
    >>> x = [[0.6, 0.8, 0.0]]
    >>> for encoder in tight_frame(16).fit(x), qolsh(16).fit(x):
    ...     rebuilt = encoder.reconstruct(encoder.encode(x))
    ...     print(round(float(rebuilt[0] @ x[0]), 3))
    0.984
    0.999
    """
    return SignFlipEncoder(bits=bits, flips=flips, together=together, seed=seed, **_all(options))


def _all(options: EncoderOptions) -> EncoderOptions:
    defaults = EncoderOptions(center=False, factor=None, short=False)
    return {**defaults, **options}
