"""Tuning: the two-stage line search over learning rate and regularization, on a validation set.

The log of a search: one JSON line a trial, so that an interrupted search goes on where it was.
"""

import copy
import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from sfumato.core.tables import Table, described
from sfumato.core.typing import Ids
from sfumato.core.validation import flag, integer, positive

__all__ = ["GRIDS", "Trial", "TrialLog", "Tuned", "search_header", "tune"]

VERSION = 1


def search_header(
    model: Any, lines: Mapping[str, Sequence[float]], fine: int, train: Any, valid: Any
) -> dict[str, Any]:
    """What defines a search: the model, what stays fixed, the grids, and checksums of the data.

    Parameters
    ----------
    model : object
        TODO.
    lines : mapping
        TODO.
    fine : int
        TODO.
    train : object
        TODO.
    valid : object
        TODO.

    Returns
    -------
    dict
        What defines a search: the model, what stays fixed, the grids, and checksums of the data.
    """
    told = model.get_params() if hasattr(model, "get_params") else {}
    return {
        "log": "sfumato tune",
        "version": VERSION,
        "model": type(model).__name__,
        "fixed": {name: _plain(value) for name, value in told.items() if name not in lines},
        "start": {name: _plain(told.get(name)) for name in lines},
        "grids": {name: list(line) for name, line in lines.items()},
        "fine": fine,
        "train": _checksum(train),
        "valid": _checksum(valid),
    }


class TrialLog:
    """A file of trials that belong to one search.

    Parameters
    ----------
    path : path_like
        TODO.
    header : dict
        TODO.
    """

    def __init__(self, path: str | os.PathLike[str], header: dict[str, Any]) -> None:
        self.path = Path(path)
        self._found: dict[str, dict[str, Any]] = {}
        first = json.dumps(header, sort_keys=True).encode() + b"\n"
        data = self.path.read_bytes() if self.path.exists() else b""
        if first.startswith(data):  # nothing, or a first line that was cut off or is all there is
            self.path.write_bytes(first)
            return
        self._check_header(data, header)
        whole_lines = data[: data.rfind(b"\n") + 1]
        if len(whole_lines) < len(data):
            with open(self.path, "r+b") as file:
                file.truncate(len(whole_lines))
        for number, line in enumerate(whole_lines.splitlines()[1:], start=2):
            self._read(number, line)

    def __repr__(self) -> str:
        return described(self, path=str(self.path), trials=len(self._found))

    def found(self, parameters: Mapping[str, float]) -> dict[str, Any] | None:
        """The error and the seconds of a trial that was done before, or None.

        Parameters
        ----------
        parameters : mapping
            TODO.

        Returns
        -------
        dict or None
            The error and the seconds of a trial that was done before, or None.
        """
        return self._found.get(_key(parameters))

    def append(
        self, stage: int, parameters: Mapping[str, float], rmse: float, seconds: float
    ) -> None:
        """Keep a trial; it is on the disk when this returns.

        Parameters
        ----------
        stage : int
            TODO.
        parameters : mapping
            TODO.
        rmse : float
            TODO.
        seconds : float
            TODO.
        """
        told = None if math.isinf(rmse) else rmse
        trial = dict(stage=stage, parameters=dict(parameters), rmse=told, seconds=seconds)
        with open(self.path, "ab") as file:
            file.write(json.dumps(trial, allow_nan=False).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _check_header(self, data: bytes, header: dict[str, Any]) -> None:
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
        try:
            told = json.loads(line)
            rmse = math.inf if told["rmse"] is None else float(told["rmse"])
            trial = {"rmse": rmse, "seconds": float(told["seconds"])}
            self._found[_key(told["parameters"])] = trial
        except (ValueError, TypeError, KeyError, AttributeError):
            raise ValueError(
                f"tune: line {number} of {self.path.name} is damaged; remove the line to do its "
                "trial again."
            ) from None


def _key(parameters: Mapping[str, float]) -> str:
    return json.dumps(dict(parameters), sort_keys=True)


def _plain(value: Any) -> Any:
    """A value as JSON has it, or its text."""
    if isinstance(value, np.generic):
        value = value.item()
    return value if isinstance(value, bool | int | float | str | None) else repr(value)


def _checksum(rows: Any) -> str:
    """Of users, items and ratings, in their order."""
    digest = hashlib.blake2b(digest_size=16)
    for column in (*rows.hashed(0), rows.ratings):
        digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()


GRIDS: dict[str, tuple[float, ...]] = {
    "learning_rate": (0.003, 0.01, 0.03, 0.1),
    "regularization": (0.003, 0.01, 0.03, 0.1, 0.3),
}
ENORMOUS = 1000.0  # an error of so many times the range of the ratings is no longer a model's
FINE = integer(0, 100)


@dataclass(frozen=True)
class Trial:
    """One fit: its stage, the parameters that were tried, and the error on the validation set.

    The error is infinite where the model diverged.

    Parameters
    ----------
    stage : int
        TODO.
    parameters : dict
        TODO.
    rmse : float
        TODO.
    seconds : float
        TODO.
    """

    stage: int
    parameters: dict[str, float]
    rmse: float
    seconds: float


@dataclass(frozen=True)
class Tuned(Table):
    """What a search found: the best parameters, their error, all trials in order, and a model.

    The model has the best parameters and is fitted on the training set if `refit` was asked for.

    Parameters
    ----------
    parameters : dict
        TODO.
    rmse : float
        TODO.
    trials : tuple
        TODO.
    model : object
        TODO.
    """

    parameters: dict[str, float]
    rmse: float
    trials: tuple[Trial, ...]
    model: Any

    def __repr__(self) -> str:
        return described(self, parameters=self.parameters, rmse=self.rmse, trials=len(self.trials))

    def _columns(self) -> dict[str, Any]:
        """A row a trial: its stage, the parameters that were tried, its error and its seconds."""
        names = list(dict.fromkeys(name for each in self.trials for name in each.parameters))
        tried = {name: [each.parameters.get(name) for each in self.trials] for name in names}
        stage, rmse, seconds = (
            [getattr(each, name) for each in self.trials] for name in ("stage", "rmse", "seconds")
        )
        return {"stage": stage, **tried, "rmse": rmse, "seconds": seconds}


def tune(
    model: Any,
    train: Any,
    valid: Any,
    *,
    grids: Mapping[str, Sequence[float]] = GRIDS,
    fine: int = 2,
    catalogue: Ids | None = None,
    log: Any = None,
    progress: Callable[[int, int, Trial], None] | None = None,
    refit: bool = False,
    public: bool = False,
) -> Tuned:
    """Find the parameters of the least RMSE on the validation set; the test set is never seen.

    The model's own values are tried first, so that the answer is never worse than they are. Stage
    one goes along each line of the grids in turn, the other parameters staying at the best so far.
    Stage two does so again with `fine` values on either side of the best, spaced evenly in the
    logarithm up to its neighbours in the grid. A model is fitted once for each set of values, and
    ties go to the earlier trial: the same data and model give the same answer. A trial that
    diverges (an error that is not finite, or 1000 times the range of the ratings) counts as
    infinite. Interrupted, it leaves the log of all trials that were done.

    Thesis 4.1.5.1.

    Parameters
    ----------
    model : object
        With get_params, fit(train) and predict(users, items), left as it is, or a function of the
        tuned parameters that makes one.
    train : object
        Interactions, not empty.
    valid : object
        Interactions, not empty.
    grids : mapping, optional
        Values above 0, ascending, for each parameter, in the order of the search.
    fine : int, default=2
        From 0 to 100.
    catalogue : array_like, scalar or None, default=None
        Given to fit if told.
    log : object, default=None
        A path: trials are kept there and not done again, and a log of other data or another model
        is refused.
    progress : callable or None, default=None
        Called with (done, all, trial).
    refit : bool, default=False
        Fit the best on train at the end.
    public : bool, default=False
        Say that the data is public: without it a model of proved privacy is refused, since choosing
        by private data would cost too, uncharged.

    Returns
    -------
    Tuned
        TODO.
    """
    lines = _checked(grids, valid, train)
    fine = FINE.check("tune", "fine", fine)
    refit, public = flag.check("tune", "refit", refit), flag.check("tune", "public", public)
    make = _maker(model)
    start = {name: _start(make, name, line) for name, line in lines.items()}
    _refuse_private(make(start), public)
    options = {} if catalogue is None else {"catalogue": catalogue}
    kept = TrialLog(log, search_header(make(start), lines, fine, train, valid)) if log else None
    search = _TrialSearch(make, train, valid, options, kept, progress)
    search.total = 1 + sum(len(line) + 2 * fine for line in lines.values())
    best = search.along(1, next(iter(lines)), [start[next(iter(lines))]], start)
    for stage in (1, 2):
        for name, line in lines.items():
            values = line if stage == 1 else _finer(line, best[name], fine)
            best = search.along(stage, name, values, best)
    chosen = make(best)
    return Tuned(
        best,
        search.error(best),
        tuple(search.trials),
        chosen.fit(train, **options) if refit else chosen,
    )


class _TrialSearch:
    """The trials of one search: done, found in the log, or to do."""

    total = 0

    def __init__(
        self,
        make: Callable[[dict[str, float]], Any],
        train: Any,
        valid: Any,
        options: dict[str, Any],
        log: TrialLog | None,
        progress: Callable[[int, int, Trial], None] | None,
    ) -> None:
        self.make, self.train, self.valid, self.options = make, train, valid, options
        self.log, self.progress = log, progress
        self.trials: list[Trial] = []
        self._errors: dict[tuple[float, ...], Trial] = {}
        self._done = 0
        reach = float(np.ptp(valid.ratings)) or 1.0
        self._most = ENORMOUS * reach

    def along(
        self, stage: int, name: str, values: Sequence[float], best: dict[str, float]
    ) -> dict[str, float]:
        """The best of the values of one parameter, all others staying as they are."""
        for value in values:
            tried = {**best, name: value}
            trial = self._trial(stage, tried)
            self._done += 1
            if self.progress is not None:
                self.progress(self._done, self.total, trial)
        line = [{**best, name: value} for value in values]
        known = [best] if tuple(best.values()) in self._errors else []
        return min([*known, *line], key=self.error)

    def error(self, parameters: dict[str, float]) -> float:
        return self._errors[tuple(parameters.values())].rmse

    def _trial(self, stage: int, parameters: dict[str, float]) -> Trial:
        key = tuple(parameters.values())
        if key in self._errors:
            return self._errors[key]
        found = self.log.found(parameters) if self.log else None
        if found is None:
            begun = perf_counter()
            error = self._fitted(parameters)
            found = {"rmse": error, "seconds": round(perf_counter() - begun, 3)}
            if self.log:
                self.log.append(stage, parameters, error, found["seconds"])
        trial = Trial(stage, parameters, found["rmse"], found["seconds"])
        self.trials.append(trial)
        self._errors[key] = trial
        return trial

    def _fitted(self, parameters: dict[str, float]) -> float:
        """The error on the validation set; infinite where the model diverged."""
        try:
            fitted = self.make(parameters).fit(self.train, **self.options)
            told = np.asarray(fitted.predict(self.valid.users, self.valid.items), np.float64)
        except (ArithmeticError, ValueError) as failed:
            # Descents raise ValueError for bad parameters too; only their divergence is a result.
            if isinstance(failed, ArithmeticError) or "diverged" in str(failed):
                return math.inf
            raise
        with np.errstate(over="ignore", invalid="ignore"):
            error = float(np.sqrt(np.mean((told - self.valid.ratings) ** 2)))
        return error if error <= self._most else math.inf


def _checked(grids: Mapping[str, Sequence[float]], valid: Any, train: Any) -> dict[str, Any]:
    for name, part in (("train", train), ("valid", valid)):
        if not len(part):
            raise ValueError(f"tune: {name} must have at least one row.")
    if not grids:
        raise ValueError("tune: grids must name at least one parameter.")
    lines = {}
    for name, grid in grids.items():
        line = [positive.check("tune", f"grids[{name!r}]", value) for value in grid]
        if not line or any(b <= a for a, b in pairwise(line)):
            raise ValueError(f"tune: grids[{name!r}] must be ascending values, at least one.")
        lines[name] = line
    return lines


def _maker(model: Any) -> Callable[[dict[str, float]], Any]:
    """A function from parameters to a fresh model."""
    if not hasattr(model, "get_params"):
        if not callable(model):
            raise TypeError("tune: model must be a model, or a function that makes one.")
        return lambda parameters: model(**parameters)
    own = model.get_params()
    if own.get("privacy") is not None:
        own["privacy"] = copy.deepcopy(own["privacy"])  # which may not spend, unless clones may
    return lambda parameters: type(model)(**{**own, **parameters})


def _start(make: Callable[[dict[str, float]], Any], name: str, line: Sequence[float]) -> float:
    """The model's own value; the middle of the grid where a made model needs one."""
    try:
        own = make({}).get_params()[name]
    except (TypeError, AttributeError):
        return line[len(line) // 2]
    except KeyError:
        raise ValueError(f"tune: the model has no parameter {name!r}.") from None
    return float(own) if own is not None else line[len(line) // 2]


def _refuse_private(model: Any, public: bool) -> None:
    names = model.get_params() if hasattr(model, "get_params") else {}
    if not public and ("epsilon" in names or getattr(model, "privacy_label", "") == "proved"):
        raise ValueError(
            f"tune: {type(model).__name__} promises proved privacy, and to choose its parameters "
            "by private data would cost more than it charges. Tune on public data and say "
            "public=True, or take the parameters of a public rule."
        )


def _finer(line: Sequence[float], best: float, fine: int) -> list[float]:
    """`fine` values between the best and each of its neighbours, evenly in the logarithm."""
    best = best if best > 0 else line[0]  # the model's own 0 has no logarithm
    at = int(np.argmin([abs(math.log(value / best)) for value in line]))
    step = line[1] / line[0] if len(line) > 1 else 10.0
    below = best / line[at - 1] if at > 0 else step
    above = line[at + 1] / best if at + 1 < len(line) else step
    shares = [k / (fine + 1) for k in range(1, fine + 1)]
    lower = [best / below**share for share in reversed(shares)]
    return [*lower, *(best * above**share for share in shares)]
