"""Secure summation with double masks: a server learns the sum over one set of parties, no more.

The protocol is that of Bonawitz et al. 2017 against parties and a server that follow it (Figure 4,
the protocol, without the messages for an active adversary). Four rounds, each with its own
dropouts:

1. every party publishes its keys (`MaskingParty.public_key`);
2. every party sends each other one, encrypted, a share of its two secrets (`send_secrets`);
3. every party sends its share of the sum under its masks (`hide`);
4. every survivor reveals one share for each party (`answer`), and the server unmasks (`unmask`).
"""

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sfumato.core.tables import described
from sfumato.core.validation import integer
from sfumato.density.noise_shares import NoisyShare

__all__ = ["MaskingParty", "PairwiseMasks", "SecretShares", "unmask"]

PARTIES = integer(2, 1000)
PRIME = 2**521 - 1  # a Mersenne prime; secrets are below 2**256
KEY = 32  # bytes of a seed, of a private and of a public key
WIDE = 66  # bytes of a number below PRIME


class SecretShares(NamedTuple):
    """Secret shares that one survivor reveals in the last round: one for each party, never two.

    Parameters
    ----------
    survivors : tuple of int
        The parties whose shares are in the sum.
    self_masks : dict of int to int
        For each survivor a secret share of the seed of its self mask.
    pair_keys : dict of int to int
        For each party that dropped out after round 2 a secret share of its private key.

    Examples
    --------
    >>> SecretShares(survivors=(0, 1), self_masks={0: 5, 1: 7}, pair_keys={2: 9})
    SecretShares(survivors=(0, 1), self_masks=2, pair_keys=1)
    """

    survivors: tuple[int, ...]
    self_masks: dict[int, int]
    pair_keys: dict[int, int]

    def __repr__(self) -> str:  # a share of a secret is not printed
        shares = {"self_masks": len(self.self_masks), "pair_keys": len(self.pair_keys)}
        return described(self, survivors=self.survivors, **shares)


class MaskingParty:
    """One party of a secure sum: its keys, its self mask and the rules by which it answers.

    Parameters
    ----------
    party : int
        The number of this party, from 0.
    parties : int
        Number of parties, from 2 to 1000.
    threshold : int
        Number of parties that must stay until the end, from 2 to `parties`; at most ``parties -
        threshold`` may drop out. This many secret shares rebuild a secret, and fewer reveal
        nothing.

    Attributes
    ----------
    party : int
        As given.
    parties : int
        As given.
    public_key : bytes
        The two public keys that the party publishes in round 1.
    threshold : int
        As given.

    Notes
    -----
    **Guarantee.** Against a server that follows the protocol and sees every message, together with
    all that up to ``threshold - 1`` parties know: whatever it adds up, it learns of the shares of
    the other parties only their sum over the one set of survivors. A share is sent under a self
    mask and a mask with each other party. A survivor reveals for each party either a secret share
    of the seed of its self mask (if that party survived) or of its private key (if it dropped out),
    for one set of survivors only; so a share that was sent but not counted stays under its self
    mask. This holds if AES-CTR, HKDF-SHA256 and X25519 are indistinguishable from random; secrets
    come from the operating system.

    **Not covered.** A server that deviates: keys are not signed and survivors do not compare the
    sets that they received, so that it could pose as parties or send them different sets. That
    needs a public-key infrastructure and the consistency check of the paper. Parties that deviate
    can spoil the sum. One object serves one sum.

    References
    ----------
    .. [1] Bonawitz et al. "Practical Secure Aggregation for Privacy-Preserving Machine Learning".
       CCS 2017, Figure 4 (protocol) and Theorem 6.3 (privacy against the server).
       https://doi.org/10.1145/3133956.3133982
    .. [2] Shamir. "How to Share a Secret". Communications of the ACM 22(11), 1979.
       https://doi.org/10.1145/359168.359176

    Examples
    --------
    >>> from sfumato.density import NoiseSharing, sum_shares
    >>> from sfumato.sketch import KernelFourier
    >>> terms = NoiseSharing(parties=3, epsilon=1.0, dropouts=1)
    >>> group = [MaskingParty(party, 3, threshold=2) for party in range(3)]
    >>> keys = {each.party: each.public_key for each in group}
    >>> mail = {each.party: each.send_secrets(keys) for each in group}
    >>> sent = []
    >>> for each in group[:2]:  # party 2 drops out
    ...     inbox = {other: mail[other][each.party] for other in mail if other != each.party}
    ...     sketch = KernelFourier(1.0, (0, 9)).update([[1.0]])
    ...     sent.append(each.hide(terms.share(sketch, each.party), inbox))
    >>> answers = {each.party: each.answer([0, 1]) for each in group[:2]}
    >>> sum_shares([unmask(sent[0] + sent[1], keys, answers, threshold=2)]).statement.epsilon
    1.0
    """

    def __init__(self, party: int, parties: int, threshold: int) -> None:
        self.parties: int = PARTIES.check("MaskingParty", "parties", parties)
        self.party: int = integer(0, self.parties - 1).check("MaskingParty", "party", party)
        self.threshold = integer(2, self.parties).check("MaskingParty", "threshold", threshold)
        self._seed, self._private, self._channel = (os.urandom(KEY) for _ in range(3))
        self.public_key: bytes = _public(self._private) + _public(self._channel)
        self._keys: dict[int, bytes] = {}
        self._received: dict[int, tuple[int, int]] = {}
        self._least: int | None = None
        self._survivors: tuple[int, ...] | None = None

    def __repr__(self) -> str:  # without keys and seed
        return described(self, party=self.party, parties=self.parties, threshold=self.threshold)

    def send_secrets(self, keys: Mapping[int, bytes]) -> dict[int, bytes]:
        """Encrypt secret shares of this party's two secrets for the other parties (round 2).

        Parameters
        ----------
        keys : mapping of int to bytes
            The public keys of all parties that published one, including this party's own.

        Returns
        -------
        dict of int to bytes
            A message for each other party, which only that party can read.
        """
        if self._keys:
            raise ValueError("MaskingParty: the secrets were sent before; one object serves one.")
        self._check_enough("keys", keys)
        if keys.get(self.party) != self.public_key:
            raise ValueError("MaskingParty: keys must hold this party's own public_key.")
        points = [party + 1 for party in keys]
        seeds, private = (split(secret, self.threshold, points) for secret in self._secrets())
        self._keys = dict(keys)
        self._received = {self.party: (seeds[self.party + 1], private[self.party + 1])}
        return {
            other: self._box(other).encrypt(
                bytes(12),  # each key of a channel and direction encrypts one message
                b"".join(part[other + 1].to_bytes(WIDE, "big") for part in (seeds, private)),
                b"%d>%d" % (self.party, other),
            )
            for other in keys
            if other != self.party
        }

    def hide(self, share: NoisyShare, inbox: Mapping[int, bytes]) -> NoisyShare:
        """Mask this party's share of the sum (round 3).

        Parameters
        ----------
        share : NoisyShare
            What `NoiseSharing.share` made for this party.
        inbox : mapping of int to bytes
            The messages of round 2 to this party, by sender; a missing sender has dropped out.

        Returns
        -------
        NoisyShare
            The share under its self mask and its masks with the others, for the server.
        """
        self._check_share(share)
        self._check_enough("inbox", [self.party, *inbox])
        received = self._received | {
            other: self._opened(other, inbox[other]) for other in sorted(inbox)
        }
        masks = _mask(self._seed, share)
        for other in inbox:
            key = _agreed(self._private, self._keys[other][:KEY])
            drawn = _mask(key, share)
            for name, mask in masks.items():
                mask += drawn[name] if self.party < other else -drawn[name]
        self._received, self._least = received, self._fewest(share)
        return share.moved(masks, masked=True)

    def answer(self, survivors: Iterable[int]) -> SecretShares:
        """Reveal one secret share for each party, to unmask the sum (round 4).

        Parameters
        ----------
        survivors : iterable of int
            The parties whose masked shares are in the sum, this one among them. Later calls must
            name the same ones: two sets would reveal the share of a party.

        Returns
        -------
        SecretShares
            For each survivor a secret share of the seed of its self mask, for each other party one
            of its private key.

        Raises
        ------
        ValueError
            If there are too few survivors, or if they differ from those of an earlier call.
        """
        members = tuple(sorted(set(survivors)))
        if self._least is None:
            raise ValueError("MaskingParty: there is no sum to unmask before a share was hidden.")
        if not set(members) <= set(self._received) or self.party not in members:
            raise ValueError(
                "MaskingParty: survivors must be parties whose secrets this one holds a share of, "
                f"and party {self.party} itself."
            )
        if len(members) < self._least:
            raise ValueError(
                f"MaskingParty: survivors must be {self._least} or more of {self.parties}, not "
                f"{len(members)}; masks stay on, start again with new shares."
            )
        if self._survivors not in (None, members):
            raise ValueError(
                "MaskingParty: survivors were others before; one object serves one sum, since two "
                "would reveal the share of a party."
            )
        self._survivors = members
        return SecretShares(
            members,
            {other: self._received[other][0] for other in members},
            {
                other: secrets[1]
                for other, secrets in self._received.items()
                if other not in members
            },
        )

    def _secrets(self) -> tuple[int, int]:
        return int.from_bytes(self._seed, "big"), int.from_bytes(self._private, "big")

    def _fewest(self, share: NoisyShare) -> int:
        """Number of survivors needed to rebuild secrets and to have enough noise."""
        return max(self.threshold, self.parties - int(share.terms["dropouts"]))

    def _check_enough(self, name: str, members: Iterable[int]) -> None:
        """Raise unless at least `threshold` known parties are among the members."""
        known, few = set(members), self.threshold
        if len(known) < few or not known <= set(self._keys or range(self.parties)):
            raise ValueError(
                f"MaskingParty: {name} must be of {few} or more of the {self.parties} parties, "
                f"and of those with keys, not of {len(known)}."
            )

    def _check_share(self, share: NoisyShare) -> None:
        """Raise unless this party may mask this share now."""
        if share.masked or share.members != (self.party,):
            raise ValueError(
                f"MaskingParty: share must be that of party {self.party}, without masks."
            )
        _check_parties("MaskingParty", self.parties, share)
        if share.terms["colluders"] >= self.threshold:
            raise ValueError(
                f"MaskingParty: threshold is {self.threshold}, so {share.terms['colluders']} "
                "colluders of the terms could rebuild every secret; take a larger one."
            )
        if not self._keys:
            raise ValueError("MaskingParty: secrets must be sent before a share is hidden.")
        if self._least is not None:  # the same masks on two shares would reveal their difference
            raise ValueError(f"MaskingParty: a share of party {self.party} was hidden before.")

    def _box(self, other: int, *, opens: bool = False) -> AESGCM:
        """The cipher of the channel to another party, or from it."""
        way = (other, self.party) if opens else (self.party, other)
        return AESGCM(_agreed(self._channel, self._keys[other][KEY:], b"channel %d>%d" % way))

    def _opened(self, other: int, message: bytes) -> tuple[int, int]:
        """Decrypt the two secret shares in a message of another party."""
        label = b"%d>%d" % (other, self.party)
        try:
            plaintext = self._box(other, opens=True).decrypt(bytes(12), message, label)
        except InvalidTag:
            raise ValueError(
                f"MaskingParty: inbox: no message of party {other} to this one."
            ) from None
        return int.from_bytes(plaintext[:WIDE], "big"), int.from_bytes(plaintext[WIDE:], "big")


def unmask(
    total: NoisyShare,
    keys: Mapping[int, bytes],
    answers: Mapping[int, SecretShares],
    *,
    threshold: int,
) -> NoisyShare:
    """Remove the masks from the sum of the survivors' shares, as the server does.

    Parameters
    ----------
    total : NoisyShare
        The sum of the masked shares of the survivors.
    keys : mapping of int to bytes
        The public keys of round 1.
    answers : mapping of int to SecretShares
        What survivors answered about these survivors; `threshold` of them are enough.
    threshold : int
        As for `MaskingParty`.

    Returns
    -------
    NoisyShare
        The sum without masks, for `sum_shares`.

    Raises
    ------
    ValueError
        If fewer than `threshold` survivors answered, or not all about the members of `total`.

    Notes
    -----
    **Guarantee.** The sum is exact modulo 2**64.

    Examples
    --------
    >>> from sfumato.density import NoiseSharing, sum_shares
    >>> from sfumato.sketch import KernelFourier
    >>> terms = NoiseSharing(parties=2, epsilon=1.0)
    >>> one, two = MaskingParty(0, 2, threshold=2), MaskingParty(1, 2, threshold=2)
    >>> keys = {0: one.public_key, 1: two.public_key}
    >>> to_two, to_one = one.send_secrets(keys)[1], two.send_secrets(keys)[0]
    >>> sketch = KernelFourier(1.0, (0, 9)).update([[1.0]])
    >>> total = one.hide(terms.share(sketch, 0), {1: to_one})
    >>> total += two.hide(terms.share(sketch, 1), {0: to_two})
    >>> answers = {0: one.answer([0, 1]), 1: two.answer([0, 1])}
    >>> sum_shares([unmask(total, keys, answers, threshold=2)]).statement.epsilon
    1.0
    """
    if not total.masked:
        raise ValueError("unmask: there are no masks on this sum.")
    if len(answers) < threshold or not set(answers) <= set(total.members):
        raise ValueError(
            f"unmask: answers must be of {threshold} or more of the parties in the sum, not of "
            f"{len(answers)}; masks stay on, start again with new shares."
        )
    if any(each.survivors != total.members for each in answers.values()):
        raise ValueError("unmask: answers must be about the parties in the sum, all of them.")
    some = dict(sorted(answers.items())[:threshold])
    seeds = rebuild({party + 1: each.self_masks for party, each in some.items()})
    private = rebuild({party + 1: each.pair_keys for party, each in some.items()})
    if any(secret >> 8 * KEY for secret in (*seeds.values(), *private.values())):
        raise ValueError("unmask: answers do not fit together; they are not of one sum.")
    inverse_masks = {name: np.zeros(array.shape, np.uint64) for name, array in total.cells.items()}
    for seed in seeds.values():
        for name, drawn in _mask(seed.to_bytes(KEY, "big"), total).items():
            inverse_masks[name] -= drawn
    for dropped, key in private.items():
        for party in total.members:
            shared = _agreed(key.to_bytes(KEY, "big"), keys[party][:KEY])
            for name, drawn in _mask(shared, total).items():
                inverse_masks[name] -= drawn if party < dropped else -drawn
    return total.moved(inverse_masks, masked=False)


class PairwiseMasks:
    """A secure sum of all parties in one process, for tests and demonstrations.

    Parameters
    ----------
    parties : int
        Number of parties, from 2 to 1000; the work in one process grows as their cube.
    threshold : int
        Number of parties that must stay until the end, as for `MaskingParty`.

    Notes
    -----
    **Guarantee.** That of `MaskingParty`, by whose rules every answer is given, towards anybody who
    sees what `hide` and `reveal` return. This object itself stores the secrets of all parties, so
    it protects nobody from the process that it runs in: across machines, each party has a
    `MaskingParty`.

    Examples
    --------
    >>> from sfumato.density import NoiseSharing, sum_shares
    >>> from sfumato.sketch import KernelFourier
    >>> terms = NoiseSharing(parties=3, epsilon=1.0, dropouts=1)
    >>> masks = PairwiseMasks(3, threshold=2)
    >>> sketch = KernelFourier(1.0, (0, 9)).update([[1.0]])
    >>> sent = [masks.hide(terms.share(sketch, party)) for party in (0, 2)]  # party 1 dropped out
    >>> sum_shares([masks.reveal(sent[0] + sent[1])]).statement.epsilon
    1.0
    """

    def __init__(self, parties: int, threshold: int) -> None:
        self.parties: int = PARTIES.check("PairwiseMasks", "parties", parties)
        self.threshold = integer(2, self.parties).check("PairwiseMasks", "threshold", threshold)
        self._group = [MaskingParty(each, parties, threshold) for each in range(self.parties)]
        self.keys = {each.party: each.public_key for each in self._group}
        self._mail = {each.party: each.send_secrets(self.keys) for each in self._group}

    def __repr__(self) -> str:
        return described(self, parties=self.parties, threshold=self.threshold)

    def hide(self, share: NoisyShare) -> NoisyShare:
        """Mask one party's share of the sum (round 3).

        Parameters
        ----------
        share : NoisyShare
            What `NoiseSharing.share` made for one party.

        Returns
        -------
        NoisyShare
            The share under the masks of that party.
        """
        _check_parties("PairwiseMasks", self.parties, share)
        party = share.members[0]
        inbox = {other: mail[party] for other, mail in self._mail.items() if other != party}
        return self._group[party].hide(share, inbox)

    def reveal(self, total: NoisyShare, answering: Iterable[int] | None = None) -> NoisyShare:
        """Remove the masks from a sum (round 4).

        Only one set of survivors can be unmasked: a second one would reveal the share of a party.

        Parameters
        ----------
        total : NoisyShare
            The sum of the masked shares of the survivors.
        answering : iterable of int or None, default=None
            Survivors that send their secret shares, at least `threshold`; None for all survivors.

        Returns
        -------
        NoisyShare
            The sum without masks, for `sum_shares`.
        """
        if not total.masked:
            raise ValueError("PairwiseMasks: there are no masks on this sum.")
        there = total.members if answering is None else sorted(set(answering) & set(total.members))
        answers = {party: self._group[party].answer(total.members) for party in there}
        return unmask(total, self.keys, answers, threshold=self.threshold)


def split(secret: int, threshold: int, points: Iterable[int], prime: int = PRIME) -> dict[int, int]:
    """Split a secret into Shamir's shares: values at these points of a random polynomial.

    Its value at 0 is the secret. Any `threshold` shares determine the secret; fewer have the same
    distribution whatever the secret is. Points must differ and be neither 0 nor multiples of the
    prime.
    """
    coefficients = [*(_below(prime) for _ in range(threshold - 1)), secret]
    shares = {}
    for point in points:
        value = 0
        for coefficient in coefficients:  # Horner
            value = (value * point + coefficient) % prime
        shares[point] = value
    return shares


def rebuild(shares_at: Mapping[int, Mapping[int, int]], prime: int = PRIME) -> dict[int, int]:
    """Recover secrets from their shares at `threshold` points, by Lagrange interpolation at 0.

    shares_at: by point, and there by owner of the secret.
    """
    secrets = dict.fromkeys(next(iter(shares_at.values())), 0)
    for point, shares in shares_at.items():
        above, below = 1, 1
        for other in shares_at:
            if other != point:
                above, below = above * other % prime, below * (other - point) % prime
        weight = above * pow(below, -1, prime) % prime
        for owner in secrets:
            secrets[owner] = (secrets[owner] + weight * shares[owner]) % prime
    return secrets


def _check_parties(owner: str, parties: int, share: NoisyShare) -> None:
    if share.terms["parties"] != parties:
        raise ValueError(
            f"{owner}: parties is {parties} here and {share.terms['parties']} in the terms of the "
            "share."
        )


def _below(prime: int) -> int:
    """A uniform number below the prime from the operating system, by rejection sampling."""
    bits = prime.bit_length()
    while True:
        drawn = int.from_bytes(os.urandom((bits + 7) // 8), "big") & ((1 << bits) - 1)
        if drawn < prime:
            return drawn


def _public(private: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def _agreed(private: bytes, public: bytes, purpose: bytes = b"mask") -> bytes:
    """The key that two parties derive, each from its private and the other's public key."""
    secret = X25519PrivateKey.from_private_bytes(private).exchange(
        X25519PublicKey.from_public_bytes(public)
    )
    return HKDF(SHA256(), KEY, salt=None, info=b"sfumato secure sum: " + purpose).derive(secret)


def _mask(key: bytes, share: NoisyShare) -> dict[str, np.ndarray]:
    """A number modulo 2**64 for every cell, from the key stream of AES in counter mode."""
    # Every key serves one sum, so the counter may start at 0.
    stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    masks = {}
    for name, array in sorted(share.cells.items()):
        drawn = np.frombuffer(stream.update(bytes(array.nbytes)), "<u8")
        masks[name] = drawn.reshape(array.shape).astype(np.uint64)
    return masks
