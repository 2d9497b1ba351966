"""Secure summation in small: masks between every two parties hide all but the sum of shares.

It shows the protocol within one process and serves tests. Across machines, take a secure summation
with key agreement and recovery of dropped parties (Bonawitz et al. 2017).
"""

import os
from itertools import combinations

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

from sfumato._require import whole
from sfumato.density._noisy_share import NoisyShare

__all__ = ["PairwiseMasks"]


class PairwiseMasks:
    """Keys that every two of the parties share, and the masks that follow from them.

    Guarantee: the cells of a hidden share are uniform modulo 2**64 to all who do not know every
    key of its party; the sum of all hidden shares is that of the shares, since one of each two
    parties adds their mask and the other takes it off. Keys come from the operating system; one
    object serves one sum, of as many parties as the terms ask for: of a smaller one, or of two
    that differ by a party, the masks stay on.
    Parameters: parties, from 2 up to 1000.

    >>> from sfumato.density import Sharing, sum_shares
    >>> from sfumato.sketch import KernelFourier
    >>> terms, masks = Sharing(parties=3, epsilon=1.0, dropouts=1), PairwiseMasks(3)
    >>> sketch = KernelFourier(1.0, (0, 9)).update([[1.0]])
    >>> sent = [masks.hide(terms.share(sketch, party)) for party in (0, 2)]  # party 1 dropped out
    >>> sum_shares([masks.reveal(sent[0] + sent[1])]).statement.epsilon
    1.0
    """

    def __init__(self, parties: int) -> None:
        self.parties = whole(2, 1000).check("PairwiseMasks", "parties", parties)
        self._keys = {pair: os.urandom(32) for pair in combinations(range(self.parties), 2)}
        self._hidden: set[int] = set()
        self._revealed = False

    def hide(self, share: NoisyShare) -> NoisyShare:
        """One party's share under its masks with all others."""
        if share.masked or len(share.members) != 1:
            raise ValueError("PairwiseMasks: only one party's share can be hidden, and only once.")
        if share.terms["parties"] != self.parties:
            raise ValueError(
                f"PairwiseMasks: parties is {self.parties} here and {share.terms['parties']} in "
                "the terms of the share."
            )
        party = share.members[0]
        if party in self._hidden:  # the same masks on two shares would tell their difference
            raise ValueError(f"PairwiseMasks: a share of party {party} was hidden before.")
        self._hidden.add(party)
        others = [other for other in range(self.parties) if other != party]
        return share.moved(self._between([party], others, share), masked=True)

    def reveal(self, total: NoisyShare) -> NoisyShare:
        """The sum without the masks that are left: those with parties that dropped out.

        The survivors would tell the keys that they share with those, and no others; so they do for
        one sum, and only if enough of them are in it. Once these are told, no other sum may be.
        """
        if not total.masked:
            raise ValueError("PairwiseMasks: there are no masks on this sum.")
        least = self.parties - total.terms["dropouts"]
        if len(total.members) < least:
            raise ValueError(
                f"PairwiseMasks: the sum is of {len(total.members)} parties; masks are taken off "
                f"that of {least} or more, or there would not be enough noise."
            )
        if self._revealed:  # two sums that differ by a party would tell its share
            raise ValueError("PairwiseMasks: a sum was revealed before; one object serves one.")
        self._revealed = True
        missing = [each for each in range(self.parties) if each not in total.members]
        left = self._between(list(total.members), missing, total)
        return total.moved({name: -mask for name, mask in left.items()}, masked=False)

    def _between(
        self, members: list[int], others: list[int], share: NoisyShare
    ) -> dict[str, np.ndarray]:
        """The sum of what the members add because of the others."""
        sums = {name: np.zeros(array.shape, np.uint64) for name, array in share.cells.items()}
        for party in members:
            for other in others:
                stream = _stream(self._keys[min(party, other), max(party, other)])
                for mask in sums.values():
                    drawn = np.frombuffer(stream.update(bytes(mask.nbytes)), np.uint64)
                    drawn = drawn.reshape(mask.shape)
                    mask += drawn if party < other else -drawn
        return sums


def _stream(key: bytes) -> CipherContext:
    """The key stream of AES in counter mode; every key serves one sum, so it may start at 0."""
    return Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
