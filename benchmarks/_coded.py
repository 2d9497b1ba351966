"""Real factors turned into codes of bits afterwards, each as the two matrices that score by it."""

import numpy as np
from _discrete import rotated, signs

from sfumato.retrieve import qolsh, tight_frame


def bytes_of(bits, user="bits", item="bits", *, more_user=0, more_item=0):
    """Bytes of a user and of an item: bits or float32 components, and numbers beside them."""
    each = {"bits": bits // 8, "real": 4 * bits}
    return each[user] + more_user, each[item] + more_item


def even(users, items):
    """Vectors of one length for items, by one more coordinate: angles then go by products."""
    squares = (items**2).sum(axis=1, keepdims=True)
    more = np.sqrt(np.maximum(squares.max() - squares, 0))
    return np.hstack([users, np.zeros((len(users), 1), np.float32)]), np.hstack([items, more])


def turned(users, items, bits):
    """Both along the directions that suit their signs best."""
    turn = rotated(np.concatenate([users, items]), bits)
    return users @ turn, items @ turn


def afterwards(users, items, along, bits, more=(0, 0)):
    """(name, bytes, users, items) of codes with a bit for each component.

    Parameters: along, the same factors `turned`; more, bytes of biases beside a user and an item.
    """
    more = dict(more_user=more[0], more_item=more[1])
    both, half = bytes_of(bits, **more), bytes_of(bits, "real", **more)
    yield "signs, Hamming", both, signs(users), signs(items)
    users, items = along
    yield "ITQ, Hamming", both, signs(users), signs(items)
    yield "ITQ, real user", half, users, signs(items)
    lengths = np.abs(items).mean(axis=1, keepdims=True)  # of the nearest multiple of the signs
    yield "ITQ, real user, length", (half[0], half[1] + 4), users, signs(items) * lengths


def evened(users, items, bits):
    """The same where items are first brought to one length, so that distances go by products."""
    codes = (signs(each) for each in turned(*even(users, items), bits))
    yield "ITQ of even lengths, Hamming", bytes_of(bits), *codes


def framed(users, items, bits, seed):
    """The same of codes on tight frames, which may have more bits than factors have components."""
    both, half = bytes_of(bits), (4 * users.shape[1], bits // 8)
    queries, laid = even(users, items)
    encoder = tight_frame(bits, seed=seed).fit(laid)
    words = encoder.query_words(queries), encoder.encode(laid).words
    yield "tight frame of even lengths, Hamming", both, *(_unpacked(each, bits) for each in words)
    flips = qolsh(bits, seed=seed).fit(items)
    yield "qoLSH, real user", half, users, flips.reconstruct(flips.encode(items))
    flips = qolsh(bits, seed=seed).fit(laid)
    rebuilt = flips.reconstruct(flips.encode(laid))
    yield "qoLSH of even lengths, real user", half, queries, rebuilt
    sized = qolsh(bits, seed=seed, factor="unbiased").fit(items)
    size = half[0], half[1] + 4
    yield "qoLSH, real user, factor", size, users, sized.reconstruct(sized.encode(items))


def _unpacked(words, bits):
    """Codes as +1 and -1."""
    result = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")[:, :bits]
    return 2 * result.astype(np.float32) - 1
