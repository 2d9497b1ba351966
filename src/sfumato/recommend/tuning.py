"""Tuning: two-stage line search on a validation set, with a log that lets it be resumed."""

import copy
import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from sfumato.core.tables import Table, described
from sfumato.core.typing import Ids
from sfumato.core.validation import flag, integer, one_of, optional, positive
from sfumato.data.features import Features
from sfumato.recommend.base import check_has_ratings, predictions
from sfumato.recommend.metrics.rating import evaluate

__all__ = ["GRIDS", "Trial", "TrialLog", "Tuned", "search_header", "tune"]

VERSION = 1


def search_header(
    model: Any, lines: Mapping[str, Sequence[float]], fine: int, train: Any, valid: Any
) -> dict[str, Any]:
    """Describe a search: the model, its fixed parameters, the grids, and checksums of the data.

    Two searches with equal headers may share a `TrialLog`.

    Parameters
    ----------
    model : object
        The model to tune, with `get_params`.
    lines : mapping of str to sequence of float
        Grid of each tuned parameter.
    fine : int
        Values on either side of the best in stage two.
    train : Interactions
        Training data.
    valid : Interactions
        Validation data.

    Returns
    -------
    dict
        JSON values: the first line of a log.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> from sfumato.recommend import DenseFactorization
    >>> ratings = Interactions([1, 2], [10, 20], [5, 4])
    >>> header = search_header(DenseFactorization(), {"decay": [1.0, 2.0]}, 2, ratings, ratings)
    >>> header["model"], header["start"]
    ('DenseFactorization', {'decay': 6.0})
    """
    parameters = model.get_params() if hasattr(model, "get_params") else {}
    return {
        "log": "sfumato tune",
        "version": VERSION,
        "model": type(model).__name__,
        "fixed": {name: _plain(value) for name, value in parameters.items() if name not in lines},
        "start": {name: _plain(parameters.get(name)) for name in lines},
        "grids": {name: list(line) for name, line in lines.items()},
        "fine": fine,
        "train": _checksum(train),
        "valid": _checksum(valid),
    }


class TrialLog:
    """File of the trials of one search, one JSON line each.

    An interrupted search continues from it. A last line that was cut off is removed.

    Parameters
    ----------
    path : path_like
        Path of the file; it is created if it does not exist.
    header : dict
        Result of `search_header`; the log of another search is refused with ValueError.

    Examples
    --------
    >>> import os, tempfile
    >>> header = {"log": "sfumato tune"}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "trials")
    ...     TrialLog(path, header).append(1, {"decay": 2.0}, rmse=0.9, seconds=3.5)
    ...     TrialLog(path, header).found({"decay": 2.0})
    {'rmse': 0.9, 'seconds': 3.5}
    """

    def __init__(self, path: str | os.PathLike[str], header: dict[str, Any]) -> None:
        self.path: Path = Path(path)
        self._found: dict[str, dict[str, Any]] = {}
        first = json.dumps(header, sort_keys=True).encode() + b"\n"
        data = self.path.read_bytes() if self.path.exists() else b""
        if first.startswith(data):  # nothing, or a first line that was cut off or is all there is
            self.path.write_bytes(first)
            return
        self._check_header(data, header)
        complete_lines = data[: data.rfind(b"\n") + 1]
        if len(complete_lines) < len(data):
            with open(self.path, "r+b") as file:
                file.truncate(len(complete_lines))
        for number, line in enumerate(complete_lines.splitlines()[1:], start=2):
            self._read(number, line)

    def __repr__(self) -> str:
        return described(self, path=str(self.path), trials=len(self._found))

    def found(self, parameters: Mapping[str, float]) -> dict[str, Any] | None:
        """Look up a trial that was done before.

        Parameters
        ----------
        parameters : mapping of str to float
            The tuned parameters of the trial.

        Returns
        -------
        dict or None
            Its "rmse" or "ndcg", and "seconds"; None if the log did not contain it when it was
            opened.
        """
        return self._found.get(_key(parameters))

    def append(
        self,
        stage: int,
        parameters: Mapping[str, float],
        rmse: float | None,
        seconds: float,
        ndcg: float | None = None,
    ) -> None:
        """Append a trial to the file.

        The trial is on disk when the call returns.

        Parameters
        ----------
        stage : int
            1 for the grids, 2 for the refinement.
        parameters : mapping of str to float
            The tuned parameters.
        rmse : float or None
            Error on the validation data; infinite if the model diverged, None if it was searched by
            NDCG.
        seconds : float
            Duration of the fit.
        ndcg : float or None, default=None
            NDCG on the validation data; -inf if the model diverged, None if it was searched by
            RMSE.
        """
        metric, value = ("rmse", rmse) if ndcg is None else ("ndcg", ndcg)
        value = None if value is None or math.isinf(value) else value
        trial = {
            "stage": stage,
            "parameters": dict(parameters),
            metric: value,
            "seconds": seconds,
        }
        with open(self.path, "ab") as file:
            file.write(json.dumps(trial, allow_nan=False).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _check_header(self, data: bytes, header: dict[str, Any]) -> None:
        """Raise ValueError unless the file is the log of this search."""
        try:
            there = json.loads(data.split(b"\n", 1)[0])
            known = there["log"] == header["log"]
        except (ValueError, TypeError, KeyError):
            known = False
        if not known:
            raise ValueError(f"tune: {self.path.name} is no log of a search; name another file.")
        for name, value in json.loads(json.dumps(header)).items():
            if there.get(name) != value:
                raise ValueError(
                    f"tune: {self.path.name} is the log of another search, of another {name}; name "
                    "another file, or remove it to begin anew."
                )

    def _read(self, number: int, line: bytes) -> None:
        """Store the trial in one line of the file; raise ValueError if the line is damaged."""
        try:
            fields = json.loads(line)
            metric = "ndcg" if "ndcg" in fields else "rmse"
            value = WORST[metric] if fields[metric] is None else float(fields[metric])
            trial = {metric: value, "seconds": float(fields["seconds"])}
            self._found[_key(fields["parameters"])] = trial
        except (ValueError, TypeError, KeyError, AttributeError):
            raise ValueError(
                f"tune: line {number} of {self.path.name} is damaged; remove the line to do its "
                "trial again."
            ) from None


def _key(parameters: Mapping[str, float]) -> str:
    """Return a canonical text of the parameters."""
    return json.dumps(dict(parameters), sort_keys=True)


def _plain(value: Any) -> Any:
    """Return a value as JSON, or its repr."""
    if isinstance(value, np.generic):
        value = value.item()
    return value if isinstance(value, bool | int | float | str | None) else repr(value)


def _checksum(rows: Any) -> str:
    """Return a hash of users, items and ratings in their order."""
    digest = hashlib.blake2b(digest_size=16)
    for column in (*rows.hashed(0), rows.ratings):
        digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()


GRIDS: dict[str, tuple[float, ...]] = {
    "learning_rate": (0.003, 0.01, 0.03, 0.1),
    "regularization": (0.003, 0.01, 0.03, 0.1, 0.3),
    "factors": (1, 8, 32, 64),  # 1: biases alone
}
ENORMOUS = 1000.0  # an error this many times the range of the ratings means divergence
FINE = integer(0, 100)
WORST = {"rmse": math.inf, "ndcg": -math.inf}  # of a model that diverged, by metric
METRIC = optional(one_of(tuple(WORST)))
LIST = 10  # items of the lists whose NDCG is measured


@dataclass(frozen=True)
class Trial:
    """One fit of a search.

    Parameters
    ----------
    stage : int
        1 for the grids, 2 for the refinement.
    parameters : dict of str to float
        The tuned parameters.
    rmse : float or None
        Root mean squared error on the validation data; infinite if the model diverged. None in a
        search by NDCG.
    seconds : float
        Duration of the fit in seconds.
    ndcg : float or None, default=None
        NDCG@10 on the validation data; -inf if the model diverged. None in a search by RMSE.

    Examples
    --------
    >>> Trial(stage=1, parameters={"decay": 2.0}, rmse=0.9, seconds=3.5).rmse
    0.9
    """

    stage: int
    parameters: dict[str, float]
    rmse: float | None
    seconds: float
    ndcg: float | None = None


@dataclass(frozen=True)
class Tuned(Table):
    """Result of `tune`.

    Parameters
    ----------
    parameters : dict of str to float
        The best parameters.
    rmse : float or None
        Their root mean squared error on the validation data; None in a search by NDCG.
    trials : tuple of Trial
        All trials in order.
    model : object
        A model with the best parameters, fitted on the training data if `refit` was set.
    ndcg : float or None, default=None
        Their NDCG@10 on the validation data; None in a search by RMSE.

    Examples
    --------
    >>> trial = Trial(stage=1, parameters={"decay": 2.0}, rmse=0.9, seconds=3.5)
    >>> Tuned({"decay": 2.0}, 0.9, (trial,), None)
    Tuned(parameters={'decay': 2.0}, rmse=0.9, trials=1)
    """

    parameters: dict[str, float]
    rmse: float | None
    trials: tuple[Trial, ...]
    model: Any
    ndcg: float | None = None

    @property
    def metric(self) -> str:
        """What was searched by: "rmse" or "ndcg"."""
        return "rmse" if self.ndcg is None else "ndcg"

    def __repr__(self) -> str:
        best = {self.metric: getattr(self, self.metric)}
        return described(self, parameters=self.parameters, **best, trials=len(self.trials))

    def _columns(self) -> dict[str, Any]:
        """Return one row per trial: stage, tuned parameters, error or NDCG, and seconds."""
        names = list(dict.fromkeys(name for each in self.trials for name in each.parameters))
        tried = {name: [each.parameters.get(name) for each in self.trials] for name in names}
        names = ["stage", self.metric, "seconds"]
        found = {name: [getattr(each, name) for each in self.trials] for name in names}
        return {"stage": found.pop("stage"), **tried, **found}


def tune(
    model: Any,
    train: Any,
    valid: Any,
    *,
    grids: Mapping[str, Sequence[float]] = GRIDS,
    fine: int = 2,
    metric: str | None = None,
    catalogue: Ids | None = None,
    log: Any = None,
    progress: Callable[[int, int, Trial], None] | None = None,
    refit: bool = False,
    public: bool = False,
    features: Features | None = None,
    attributes: Features | None = None,
) -> Tuned:
    """Tune parameters of a model by a two-stage line search on validation data.

    The model's own values are tried first, so the result is never worse on the validation data.
    Stage one searches the grid of each parameter in turn, with the others at their best values so
    far. Stage two repeats this with `fine` values on either side of the best, evenly spaced in the
    logarithm up to its neighbours in the grid.

    Parameters
    ----------
    model : object
        A model with `get_params`, `fit(train)` and `predict(users, items)` (or, for lists,
        `recommend(users, n, exclude=)`), which is not changed, or a function that takes the tuned
        parameters and returns one.
    train : Interactions
        Training data, not empty.
    valid : Interactions
        Validation data, not empty.
    grids : mapping of str to sequence of float, optional
        Values of each parameter, above 0 and ascending, in the order of the search; only whole
        numbers are tried where all are. The default has grids for `learning_rate`,
        `regularization` and `factors`, where 1 is biases alone, as far as the model has them.
    fine : int, default=2
        Values on either side of the best in stage two, from 0 to 100.
    metric : {"rmse", "ndcg"} or None, default=None
        What is best on the validation data: the smallest error of ratings, or the largest NDCG@10
        of lists of the whole catalogue without the items of `train`. None is "rmse" for a model
        that predicts ratings, else "ndcg".
    catalogue : array_like, scalar or None, default=None
        Passed to `fit` unless None.
    log : path_like or None, default=None
        File of the trials. Trials in it are not repeated; the log of other data or another model is
        refused.
    progress : callable or None, default=None
        Called as `progress(done, total, trial)` after each trial.
    refit : bool, default=False
        Whether to fit the best model on `train` at the end.
    public : bool, default=False
        Whether the data is public. If False, a differentially private model is refused: selecting
        parameters on private data leaks too, and would not be charged.
    features : Features or None, default=None
        Features of items, passed to `fit` unless None.
    attributes : Features or None, default=None
        Attributes of users, passed to `fit` unless None.

    Returns
    -------
    Tuned
        Best parameters, their error or NDCG, all trials and the model.

    Notes
    -----
    **Guarantee.** Each set of values is fitted once, and ties go to the earlier trial, so that
    equal data and models give equal results. A trial that diverges (an error that is not finite, or
    above 1000 times the range of the ratings) counts as the worst. An interrupted search leaves the
    log of all completed trials.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 4.1.5.1 (line search for learning rate and regularization).
       https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> from sfumato.data import generate_world
    >>> from sfumato.recommend import DenseFactorization
    >>> world = generate_world(users=30, items=20, ratings=300, random_state=1).interactions
    >>> model = DenseFactorization(factors=4, epochs=2)
    >>> result = tune(model, world, world, grids={"regularization": [0.01, 0.1]}, fine=0)
    >>> len(result.trials), sorted(result.parameters)
    (3, ['regularization'])
    """
    lines = _checked(_known(grids, model), valid, train)
    fine = FINE.check("tune", "fine", fine)
    refit, public = flag.check("tune", "refit", refit), flag.check("tune", "public", public)
    make = _maker(model)
    start = {name: _start(make, name, line) for name, line in lines.items()}
    _refuse_private(make(start), public)
    metric = _metric(metric, make(start), valid)
    known = {"catalogue": catalogue, "features": features, "attributes": attributes}
    options = {name: value for name, value in known.items() if value is not None}
    trial_log = None
    if log:
        header = search_header(make(start), lines, fine, train, valid)
        trial_log = TrialLog(log, header if metric == "rmse" else {**header, "metric": metric})
    search = _TrialSearch(make, train, valid, metric, options, trial_log, progress)
    search.total = 1 + sum(len(line) + 2 * fine for line in lines.values())
    best = search.along(1, next(iter(lines)), [start[next(iter(lines))]], start)
    for stage in (1, 2):
        for name, line in lines.items():
            values = line if stage == 1 else _finer(line, best[name], fine)
            best = search.along(stage, name, values, best)
    chosen = make(best)
    if refit:
        chosen.fit(train, **options)
    trial = search.trial(best)
    return Tuned(best, trial.rmse, tuple(search.trials), chosen, trial.ndcg)


def _metric(metric: str | None, model: Any, valid: Any) -> str:
    """Return what is measured on the validation data; raise ValueError if the model has it not."""
    rated = getattr(model, "predicts_ratings", True)
    chosen = METRIC.check("tune", "metric", metric) or ("rmse" if rated else "ndcg")
    if chosen == "rmse" and not rated:
        name = type(model).__name__
        raise ValueError(f"tune: metric must be 'ndcg' for {name}, which predicts no ratings.")
    if chosen == "rmse":
        check_has_ratings("tune", valid, "valid")
    return str(chosen)


class _TrialSearch:
    """Trials of one search: run, or taken from the log."""

    total = 0

    def __init__(
        self,
        make: Callable[[dict[str, float]], Any],
        train: Any,
        valid: Any,
        metric: str,
        options: dict[str, Any],
        log: TrialLog | None,
        progress: Callable[[int, int, Trial], None] | None,
    ) -> None:
        self.make, self.train, self.valid, self.options = make, train, valid, options
        self.metric = metric
        self.log, self.progress = log, progress
        self.trials: list[Trial] = []
        self._done_before: dict[tuple[float, ...], Trial] = {}
        self._done = 0
        width = float(np.ptp(valid.ratings)) or 1.0
        self._largest = ENORMOUS * width

    def along(
        self, stage: int, name: str, values: Sequence[float], best: dict[str, float]
    ) -> dict[str, float]:
        """Try the values of one parameter, all others fixed, and return the best parameters."""
        for value in values:
            tried = {**best, name: value}
            trial = self._trial(stage, tried)
            self._done += 1
            if self.progress is not None:
                self.progress(self._done, self.total, trial)
        line = [{**best, name: value} for value in values]
        known = [best] if tuple(best.values()) in self._done_before else []
        return min([*known, *line], key=self._loss)

    def trial(self, parameters: dict[str, float]) -> Trial:
        """Return a trial that was done."""
        return self._done_before[tuple(parameters.values())]

    def _loss(self, parameters: dict[str, float]) -> float:
        """Return what is smallest for the best of the trials that were done."""
        value = float(getattr(self.trial(parameters), self.metric))
        return value if self.metric == "rmse" else -value

    def _trial(self, stage: int, parameters: dict[str, float]) -> Trial:
        """Return the trial with these parameters, running it if it is in neither memory nor log."""
        key = tuple(parameters.values())
        if key in self._done_before:
            return self._done_before[key]
        found = self.log.found(parameters) if self.log else None
        if found is None:
            begun = perf_counter()
            value = self._fitted(parameters)
            found = {self.metric: value, "seconds": round(perf_counter() - begun, 3)}
            if self.log:
                self.log.append(
                    stage, parameters, found.get("rmse"), found["seconds"], found.get("ndcg")
                )
        trial = Trial(stage, parameters, found.get("rmse"), found["seconds"], found.get("ndcg"))
        self.trials.append(trial)
        self._done_before[key] = trial
        return trial

    def _fitted(self, parameters: dict[str, float]) -> float:
        """Return the validation error or NDCG of a fit; the worst if the model diverged."""
        try:
            fitted = self.make(parameters).fit(self.train, **self.options)
            if self.metric == "ndcg":
                return evaluate(fitted, self.valid, n=LIST, exclude=self.train)["ndcg"]
            predicted = predictions(fitted, self.valid)
        except (ArithmeticError, ValueError) as failed:
            # Descents raise ValueError for bad parameters too; only their divergence is a result.
            if isinstance(failed, ArithmeticError) or "diverged" in str(failed):
                return WORST[self.metric]
            raise
        with np.errstate(over="ignore", invalid="ignore"):
            error = float(np.sqrt(np.mean((predicted - self.valid.ratings) ** 2)))
        return error if error <= self._largest else math.inf


def _known(grids: Mapping[str, Sequence[float]], model: Any) -> Mapping[str, Sequence[float]]:
    """Return the default grids of the parameters that a model has; other grids as they are."""
    if grids is not GRIDS or not hasattr(model, "get_params"):
        return grids
    own = model.get_params()
    return {name: line for name, line in grids.items() if name in own}


def _checked(grids: Mapping[str, Sequence[float]], valid: Any, train: Any) -> dict[str, Any]:
    """Return the grids as lists; raise ValueError for empty data or invalid grids."""
    for name, part in (("train", train), ("valid", valid)):
        if not len(part):
            raise ValueError(f"tune: {name} must have at least one row.")
    if not grids:
        raise ValueError("tune: grids must name at least one parameter.")
    lines = {}
    for name, grid in grids.items():
        line = [positive.check("tune", f"grids[{name!r}]", value) for value in grid]
        if all(isinstance(value, Integral) for value in grid):
            line = [int(value) for value in line]
        if not line or any(b <= a for a, b in pairwise(line)):
            raise ValueError(f"tune: grids[{name!r}] must be ascending values, at least one.")
        lines[name] = line
    return lines


def _maker(model: Any) -> Callable[[dict[str, float]], Any]:
    """Return a function from parameters to a new model."""
    if not hasattr(model, "get_params"):
        if not callable(model):
            raise TypeError("tune: model must be a model, or a function that makes one.")
        return lambda parameters: model(**parameters)
    own = model.get_params()
    if own.get("privacy") is not None:
        own["privacy"] = copy.deepcopy(own["privacy"])  # which may not spend, unless clones may
    return lambda parameters: type(model)(**{**own, **parameters})


def _start(make: Callable[[dict[str, float]], Any], name: str, line: Sequence[float]) -> float:
    """Return the model's own value, or the middle of the grid if it has none."""
    try:
        own = make({}).get_params()[name]
    except (TypeError, AttributeError):
        return line[len(line) // 2]
    except KeyError:
        raise ValueError(f"tune: the model has no parameter {name!r}.") from None
    if own is None:
        return line[len(line) // 2]
    return int(own) if isinstance(own, Integral) and isinstance(line[0], int) else float(own)


def _refuse_private(model: Any, public: bool) -> None:
    """Raise ValueError for a differentially private model unless the data is public."""
    names = model.get_params() if hasattr(model, "get_params") else {}
    if not public and ("epsilon" in names or getattr(model, "privacy_label", "") == "proved"):
        raise ValueError(
            f"tune: {type(model).__name__} is differentially private, and choosing its parameters "
            "by private data would cost more than it charges. Tune on public data and say "
            "public=True, or take the parameters of a public rule."
        )


def _finer(line: Sequence[float], best: float, fine: int) -> list[float]:
    """Return `fine` values between the best and each of its neighbours, even in the logarithm."""
    best = best if best > 0 else line[0]  # the model's own 0 has no logarithm
    at = int(np.argmin([abs(math.log(value / best)) for value in line]))
    step = line[1] / line[0] if len(line) > 1 else 10.0
    below = best / line[at - 1] if at > 0 else step
    above = line[at + 1] / best if at + 1 < len(line) else step
    fractions = [k / (fine + 1) for k in range(1, fine + 1)]
    lower = [best / below**fraction for fraction in reversed(fractions)]
    found = [*lower, *(best * above**fraction for fraction in fractions)]
    if not all(isinstance(value, int) for value in line):
        return found
    return [max(round(value), line[0]) for value in found]
