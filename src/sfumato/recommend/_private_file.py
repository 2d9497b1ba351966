"""A private model in a file: noisy vectors, public lists, the parameters and their statement."""

from copy import copy
from typing import Any

import numpy as np

from sfumato._require import flag, positive, whole
from sfumato.privacy.statement import PrivacyStatement
from sfumato.recommend._model import Factorization
from sfumato.recommend._private_events import Accounts
from sfumato.sketch import _ids
from sfumato.sketch._base import SEED
from sfumato.sketch._stored import Cells

__all__ = ["MOST_ROWS", "PrivateFile"]

MOST_ROWS = 2**26


class PrivateFile(Factorization, in_files=False):
    """The learned state of `PrivateFactorization`, and how it goes into a file and comes back.

    Guarantee: a file tells the parameters that its statement was made with, whatever `set_params`
    did later; users' own vectors are in none.
    """

    unit: str
    covers: str
    epsilon: float
    delta: float
    residual_: float
    user_bias_: float
    joint_: bool
    user_vectors_: np.ndarray
    item_vectors_: np.ndarray
    _accounts: Accounts
    _kind: str
    _fitted: dict[str, Any]  # the parameters of what was learned
    _statement: PrivacyStatement | None = None

    @property
    def statement(self) -> PrivacyStatement | None:
        return self._statement

    def to_bytes(self) -> bytes:
        self._check_fitted()
        self._check_releasable()
        released = copy(self)
        released.__dict__.update(self._fitted)
        return Factorization.to_bytes(released)

    def _check_releasable(self) -> None:
        """Raise for a personal copy, of which nothing may be published."""
        if self.joint_ and len(self._accounts):
            raise ValueError(
                "PrivateFactorization: a personal copy holds users' own vectors and is not saved "
                "or sketched; take the model that it was made from."
            )

    def _layout(self) -> dict[str, Cells]:
        wide = Cells(np.float32, (-1, -1))
        return {
            **_ids.id_layout("users", self._kind),
            "user_vectors": wide,
            "item_vectors": wide,
        }

    def _arrays(self) -> dict[str, np.ndarray]:
        ids = _ids.id_arrays("users", self._accounts.ids)
        return {**ids, "user_vectors": self.user_vectors_, "item_vectors": self.item_vectors_}

    def _restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        ids = _ids.ids_from("users", arrays)
        self._accounts = Accounts(ids, self._accounts.shared, self._accounts.seed)
        self.user_vectors_, self.item_vectors_ = arrays["user_vectors"], arrays["item_vectors"]
        fits = (
            self.user_vectors_.shape == (len(self._accounts), self.item_vectors_.shape[1])
            and self.item_vectors_.shape[0] == len(self.catalogue_)
            and self.item_vectors_.shape[1] >= 2
            and np.isfinite(self.user_vectors_).all()
            and np.isfinite(self.item_vectors_).all()
        )
        if not fits:
            raise ValueError("the vectors do not fit the lists of users and items.")

    def _state(self) -> dict[str, Any]:
        assert self._statement is not None
        return {
            **super()._state(),
            "users": self._kind,
            "rows": self._accounts.shared,
            "seed": self._accounts.seed,
            "joint": self.joint_,
            "residual": self.residual_,
            "user_bias": self.user_bias_,
            "statement": self._statement.to_dict(),
        }

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        owner = type(self).__name__
        self._fitted = self.get_params()
        self._kind, self.joint_ = state["users"], flag.check(owner, "joint", state["joint"])
        shared = whole(0, MOST_ROWS).check(owner, "rows", state["rows"])
        seed = SEED.check(owner, "seed", state["seed"])
        self._accounts = Accounts(np.empty(0, np.int64), shared, seed)
        self.residual_ = positive.check(owner, "residual", state["residual"])
        self.user_bias_ = positive.check(owner, "user_bias", state["user_bias"])
        try:
            self._statement = PrivacyStatement.from_dict(state["statement"])
        except RecursionError:
            raise ValueError("the statement is nested too deep.") from None
        self._check_statement(self._statement)

    def _check_statement(self, told: PrivacyStatement) -> None:
        asked = (self.unit, self.covers == "joint", self.delta)
        if asked != (told.unit, self.joint_, told.delta) or told.epsilon > self.epsilon:
            raise ValueError("the statement is not one of these parameters.")
