"""A physical shuffle of rows: dealt to 16 piles in one sweep, so that reading stays sequential."""

import numpy as np

from ._jit import kernel

__all__ = ["PILES", "deal"]

PILES = 16  # more make more streams of writes than the first cache has room for


@kernel
def deal(users, items, ratings, words, out_users, out_items, out_ratings):
    """Row k of group g goes to place g of pile (k a + c) mod 16; a, odd, and c are from words[g].

    A group is 16 rows, so every pile gets one row of each and no piles need be counted. In a pile
    rows keep their order; dealt again, they lose it. Rows after the last whole group stay.
    """
    groups = words.size
    for g in range(groups):
        factor, pile = words[g] | np.uint64(1), words[g] >> np.uint64(32)
        for k in range(PILES):
            old = g * PILES + k
            new = np.int64(pile & np.uint64(PILES - 1)) * groups + g
            out_users[new], out_items[new] = users[old], items[old]
            out_ratings[new] = ratings[old]
            pile += factor
    for i in range(groups * PILES, users.size):
        out_users[i], out_items[i], out_ratings[i] = users[i], items[i], ratings[i]
