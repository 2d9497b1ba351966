"""Running compositions of the charges of data sets: continued in memory and saved in the file."""

import hashlib
import math
from collections import Counter
from fractions import Fraction

from sfumato.privacy.accounting import composition as _compose
from sfumato.privacy.accounting.composition import Composition
from sfumato.privacy.accounting.losses import Loss
from sfumato.privacy.ledger import budget as _budget
from sfumato.privacy.ledger.budget import BudgetExceeded, Cost, DataSet, Spending
from sfumato.privacy.ledger.entries import Book, Writer, sealed
from sfumato.privacy.ledger.store import LedgerConnection

__all__ = ["After", "Compositions", "check_running"]

SAVED = 64  # charges after which a running composition is written to the file
PENDING = 256  # losses that one is caught up with one by one; more are composed anew
# Of a payer: what it will have spent, what its losses then compose to, how much is not saved.
After = tuple[Spending, Composition | None, int]


class Compositions:
    """Per data set: the last entry, its composition, and how many losses are unsaved."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[int, Composition, int]] = {}

    def after(self, file: LedgerConnection, book: Book, payer: DataSet, loss: Loss) -> After:
        """Return what a payer will have spent after a loss; BudgetExceeded if that is too much."""
        if loss.relation != payer.relation:
            raise ValueError(
                f"Ledger: the loss is under {loss.relation!r}, and data set {payer.name!r} under "
                f"{payer.relation!r}; state it under that relation."
            )
        before = book.spending(file, payer.name)
        if payer.delta == 0:
            after, composition, unsaved = before.with_loss(loss), None, 0
        else:
            composition, unsaved = self._composed(file, book, payer.name, loss)
            tight = composition.epsilon(payer.delta)
            after = before.with_loss(loss, tight)
            if not after.fits(payer, before):
                after = before.with_loss(loss, min(tight, _tighter(file, book, payer, loss)))
        if not after.fits(payer, before):
            alone, all_of_it = _budget.alone(loss, payer), Cost(payer.epsilon, payer.delta)
            raise BudgetExceeded(payer.name, before.left(payer), all_of_it, alone)
        return after, composition, unsaved

    def _composed(
        self, file: LedgerConnection, book: Book, name: str, loss: Loss
    ) -> tuple[Composition, int]:
        """Compose all losses of a data set and one more; return also how many are unsaved."""
        position, known, unsaved = self.known.get(name) or _saved(file, book, name)
        caught_up = known is None or position >= book.last[name]
        new = Counter[str]() if caught_up else book.losses(file, name, position)
        if known is not None and new.total() <= PENDING:
            pending = [*book.read(new).elements(), loss]
            grown: Composition | None = known
            for each in pending:
                grown = None if grown is None else grown.joined(each)
            if grown is not None:
                return grown, unsaved + len(pending)
        losses = book.read(book.losses(file, name))
        return Composition.of(losses + Counter({loss: 1})), losses.total() + 1

    def save(
        self, file: LedgerConnection, writer: Writer, payers: list[DataSet], after: list[After]
    ) -> dict[str, tuple[int, Composition, int]]:
        """Return the compositions after this charge; write them to the file now and then."""
        grown = {}
        for payer, (_, composition, unsaved) in zip(payers, after, strict=True):
            if composition is None:
                continue
            if unsaved >= SAVED:
                body = composition.to_bytes()
                seal = _product_seal(payer.name, writer.position, writer.chain, body)
                file.execute(
                    "INSERT INTO product VALUES (?, ?, ?, ?) ON CONFLICT (dataset) DO UPDATE SET "
                    "place = excluded.place, seal = excluded.seal, body = excluded.body",
                    (payer.name, writer.position, seal, body),
                )
                unsaved = 0
            grown[payer.name] = (writer.position, composition, unsaved)
        return grown


def check_running(file: LedgerConnection, book: Book, budget: DataSet) -> None:
    """Check the stored spending against a composition from scratch."""
    stored, losses = book.spending(file, budget.name), book.losses(file, budget.name)
    read = book.read(losses)
    sums = [Fraction(loss.epsilon) * n for loss, n in read.items() if loss.epsilon < math.inf]
    pure = sum(sums, Fraction(0)) if len(sums) == len(read) else None
    if stored.pure != pure:
        raise book.damaged(f"the charges of {budget.name!r} do not add up to what it has spent")
    if budget.delta and losses:
        tight = Composition.of(read).epsilon(budget.delta)
        least = min(tight, budget.epsilon, stored.pure_epsilon) / 1.05  # both are near the exact
        if stored.epsilon < least:
            raise book.damaged(f"the charges of {budget.name!r} cost more than it has spent")
    position, composition, _ = _saved(file, book, budget.name)
    if composition is not None and composition.epsilon(budget.delta) > 1.05 * max(
        stored.epsilon, budget.epsilon
    ):
        raise book.damaged(f"the saved composition of {budget.name!r} is not that of {position}")


def _tighter(file: LedgerConnection, book: Book, payer: DataSet, loss: Loss) -> float:
    """Compose without a running grid, where there are few kinds of losses."""
    losses = book.losses(file, payer.name)
    if len(losses) >= _compose.MANY:
        return math.inf
    all_of_them = book.read(losses) + Counter({loss: 1})
    return _compose.epsilon_at(all_of_them, payer.delta, "pld")


def _saved(file: LedgerConnection, book: Book, name: str) -> tuple[int, Composition | None, int]:
    """Return the saved composition and its entry; (0, None, 0) if there is none."""
    row = file.execute(
        "SELECT place, seal, body, chain FROM product LEFT JOIN charge USING (place) "
        "WHERE product.dataset = ?",
        (name,),
    ).fetchone()
    if row is None:
        return 0, None, 0
    position, seal, body, chain = row
    if seal != _product_seal(name, position, chain, body):
        raise book.damaged(f"the saved composition of {name!r} was altered")
    return position, Composition.from_bytes(body), 0


def _product_seal(name: str, position: int, chain: str, body: bytes) -> str:
    return sealed("product", (name, position, chain, hashlib.sha256(body).hexdigest()))
