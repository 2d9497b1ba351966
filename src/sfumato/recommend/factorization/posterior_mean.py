"""The mean prediction of many samples of vectors, as one pair of vectors of fixed length."""

from typing import NamedTuple

import numpy as np

__all__ = ["MeanVectors", "Sample"]


class Sample(NamedTuple):
    """Vectors and biases of users and items; predictions are mean + biases + product."""

    users: np.ndarray
    items: np.ndarray
    user_biases: np.ndarray
    item_biases: np.ndarray
    mean: float


class MeanVectors:
    """Sum of the predictions of samples: biases exactly, products by their best approximation.

    The sum of products over samples is one product of vectors laid end to end. Whenever these are
    twice as long as `components`, they are replaced by shorter ones with the nearest products (in
    squares over all pairs of a user and an item): the singular value decomposition, truncated.

    >>> mean = MeanVectors(components=1)
    >>> p, q, zeros = np.ones((2, 1), np.float32), np.ones((3, 1), np.float32), np.zeros(3)
    >>> for scale in (1, 2, 6):
    ...     mean.add(Sample(scale * p, q, zeros[:2], zeros, 0.0))
    >>> users, items, _ = mean.vectors()
    >>> (users[:, :1] @ items[:, :1].T).round(4)[0]
    array([3., 3., 3.], dtype=float32)
    """

    def __init__(self, components: int) -> None:
        self.components: int
        self.components, self.count, self.mean = components, 0, 0.0

    def add(self, sample: Sample) -> None:
        """Add the predictions of a sample."""
        biases = sample.user_biases, sample.item_biases
        if not self.count:
            self._users, self._items = [], []
            self._biases = [np.zeros(each.size) for each in biases]
        self._users.append(np.array(sample.users, np.float32))
        self._items.append(np.array(sample.items, np.float32))
        for total, each in zip(self._biases, biases, strict=True):
            total += each
        self.mean += sample.mean
        self.count += 1
        if sum(part.shape[1] for part in self._users) >= 2 * self.components:
            self._reduce()

    def vectors(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Return components and, last, biases of users and of items, and the constant."""
        self._reduce()
        scale = np.float32(self.count**-0.5)
        tables = (self._users[0] * scale, self._items[0] * scale)
        users, items = (
            np.column_stack([table, (total / self.count).astype(np.float32)])
            for table, total in zip(tables, self._biases, strict=True)
        )
        return users, items, self.mean / self.count

    def _reduce(self) -> None:
        """Replace the vectors by those of at most `components` numbers with nearest products."""
        users, items = np.hstack(self._users), np.hstack(self._items)
        (left, left_inverse), (right, right_inverse) = _root(users), _root(items)
        u, s, v = np.linalg.svd(left @ right.T)
        scales = np.sqrt(s[: self.components])
        self._users = [users @ (left_inverse @ (u[:, : scales.size] * scales)).astype(np.float32)]
        self._items = [items @ (right_inverse @ (v[: scales.size].T * scales)).astype(np.float32)]


def _root(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return r with r' r = table' table, and the inverse of r, 0 where there is none."""
    values, vectors = np.linalg.eigh((table.T @ table).astype(np.float64))
    roots = np.sqrt(np.maximum(values, 0))
    some = roots > 1e-6 * roots.max()
    inverse = np.divide(1, roots, out=np.zeros_like(roots), where=some)
    return (vectors * (roots * some)).T, vectors * inverse
