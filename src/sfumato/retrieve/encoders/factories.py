"""Functions that build encoders: signs, tight frames, and codes chosen by search.

Each returns a `CodeEncoder` and also takes its options: center, factor and short.
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
    """Options of every encoder besides its own parameters; see `CodeEncoder`."""

    center: bool
    factor: str | None
    short: bool


def project_and_sign(
    bits: int = 256, *, directions: str = "random", seed: int = 0, **options: Unpack[EncoderOptions]
) -> CodeEncoder:
    """Build an encoder of signs: the side of each of `bits` hyperplanes (SimHash).

    Parameters
    ----------
    bits : int, default=256
        Bits of a code, 1 to 65,536.
    directions : {"random", "orthogonal", "super-bit"}, default="random"
        Normals of the hyperplanes: "random" are independent Gaussian; "orthogonal" have less
        variance, and are at most as many as the dimension; "super-bit" are orthogonal in batches of
        the dimension.
    seed : int, default=0
        Seed of the directions.
    **options : dict
        `center`, `factor` and `short` of `CodeEncoder`.

    Returns
    -------
    CodeEncoder
        The encoder, not fitted.

    Notes
    -----
    **Guarantee.** Two codes differ in each bit with probability angle / pi.

    References
    ----------
    .. [1] Charikar. "Similarity Estimation Techniques from Rounding Algorithms". STOC 2002.
       https://doi.org/10.1145/509907.509965
    .. [2] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, equation (5.1) (project and sign).
       https://theses.hal.science/tel-01430156
    .. [3] Ji, Li, Yan, Zhang, Tian. "Super-Bit Locality-Sensitive Hashing". NIPS 2012.

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
    """Build an encoder of signs along a tight frame, W W^T = I.

    Vectors are reconstructed more accurately than with independent directions, at the same cost.

    Parameters
    ----------
    bits : int, default=256
        Bits of a code, 1 to 65,536.
    seed : int, default=0
        Seed of the frame.
    **options : dict
        `center`, `factor` and `short` of `CodeEncoder`.

    Returns
    -------
    CodeEncoder
        The encoder, not fitted.

    Notes
    -----
    **Guarantee.** Where bits <= dimension (the directions are then orthonormal), no code of the
    same directions is closer to a vector.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, equation (5.9) (tight frame). https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> encoder = tight_frame(64).fit([[1, 0, 0]])
    >>> reconstructed = encoder.reconstruct(encoder.encode([[1, 0, 0]]))
    >>> bool(reconstructed[0, 0] > 0.9)
    True
    """
    return TightFrameEncoder(bits=bits, seed=seed, **_all(options))


def anti_sparse(
    bits: int = 256, *, seed: int = 0, **options: Unpack[EncoderOptions]
) -> CodeEncoder:
    """Build an encoder of anti-sparse codes on a tight frame W.

    A code is the signs of the v with W v = x whose largest entry is smallest. Encoding is slow:
    about 5 microseconds per vector for 8 dimensions and 16 bits, and about 5 milliseconds for 128
    and 256; `qolsh` is closer to the vector in a thousandth of that.

    Parameters
    ----------
    bits : int, default=256
        Bits of a code, from the dimension to 1,024.
    seed : int, default=0
        Seed of the frame.
    **options : dict
        `center`, `factor` and `short` of `CodeEncoder`.

    Returns
    -------
    CodeEncoder
        The encoder, not fitted.

    Notes
    -----
    **Guarantee.** The linear programme is solved exactly, in float64; v has bits - dimension + 1
    entries at its bound. If a vector takes more than 50 * bits steps, which only many ties can
    cause, its code is that of the last step.

    References
    ----------
    .. [1] Jégou, Furon, Fuchs. "Anti-Sparse Coding for Approximate Nearest Neighbor Search". ICASSP
       2012. https://arxiv.org/abs/1110.3767
    .. [2] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, equation (5.8) (anti-sparse coding).
       https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> encoder = anti_sparse(16).fit([[1, 0, 0]])
    >>> encoder.encode([[1, 0, 0], [2, 0, 0]]).words.shape
    (2, 1)
    """
    return AntiSparseEncoder(bits=bits, seed=seed, **_all(options))


def optimal(bits: int = 16, *, seed: int = 0, **options: Unpack[EncoderOptions]) -> CodeEncoder:
    """Build an encoder that tries all codes and takes the closest in angle.

    The code b is the one whose W b, on a tight frame W, has the largest cosine with the vector.

    Parameters
    ----------
    bits : int, default=16
        Bits of a code, 1 to 20; the time doubles with each bit.
    seed : int, default=0
        Seed of the frame.
    **options : dict
        `center`, `factor` and `short` of `CodeEncoder`.

    Returns
    -------
    CodeEncoder
        The encoder, not fitted.

    Notes
    -----
    **Guarantee.** Exact up to float32 rounding: every pair of b and -b is tried.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, equations (5.5)-(5.6) (optimal code).
       https://theses.hal.science/tel-01430156

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
    """Build an encoder that improves the signs along a tight frame by flipping bits (qoLSH).

    Each step flips the bit that increases the cosine between W b and the vector most. Flipped bits
    reconstruct the vector better and are worse to compare by Hamming distance, for which
    ``short=True`` stores the signs.

    Parameters
    ----------
    bits : int, default=256
        Bits of a code, 1 to 4,096.
    flips : int, default=10
        Maximum number of steps that flip one bit, 0 to 65,536.
    together : {1, 2}, default=1
        With 2, as many steps follow that flip the best pair of bits, or the best bit where that is
        better; each tries bits**2 / 2 pairs.
    seed : int, default=0
        Seed of the frame.
    **options : dict
        `center`, `factor` and `short` of `CodeEncoder`.

    Returns
    -------
    CodeEncoder
        The encoder, not fitted.

    Notes
    -----
    **Guarantee.** The cosine between W b and the vector is at least that of `tight_frame`. Each
    step increases it, and the search ends where no flip would, or after `flips` steps. With
    ``together=2`` the cosine is at least that of ``together=1``, and if the search ends before its
    steps are used up, no two flips would increase it either.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, equations (5.10)-(5.12) (qoLSH), and section 6.1 (flips of several
       bits). https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> x = [[0.6, 0.8, 0.0]]
    >>> for encoder in tight_frame(16).fit(x), qolsh(16).fit(x):
    ...     reconstructed = encoder.reconstruct(encoder.encode(x))
    ...     print(round(float(reconstructed[0] @ x[0]), 3))
    0.984
    0.999
    """
    return SignFlipEncoder(bits=bits, flips=flips, together=together, seed=seed, **_all(options))


def _all(options: EncoderOptions) -> EncoderOptions:
    defaults = EncoderOptions(center=False, factor=None, short=False)
    return {**defaults, **options}
