"""Rows that are hard to read, to be added to good data of which they must change nothing else."""

import math
import warnings

import numpy as np
import pandas as pd

from sfumato.data import Interactions

ODD = {
    "text user": ("guest", 3, 5.0),
    "text item": (7, "teapot", 5.0),
    "floats": (7.0, 3.0, 5.0),
    "written": ("7", "3", "5"),
    "half": (7.5, 3, 5.0),
    "no user": (None, 3, 5.0),
    "no item": (7, pd.NA, 5.0),
    "NaN user": (math.nan, 3, 5.0),
    "NaT item": (7, pd.NaT, 5.0),
    "NaN rating": (7, 3, math.nan),
    "infinite": (7, 3, math.inf),
    "minus infinite": (7, 3, -math.inf),
    "no rating": (7, 3, None),
    "word": (7, 3, "five"),
    "above": (7, 3, 1.7e308),
    "below": (7, 3, -1e308),
    "huge rating": (7, 3, 10**400),
    "unlisted user": (10**6, 3, 5.0),
    "unlisted item": (7, 10**6, 5.0),
    "huge user": (2**70, 3, 5.0),
    "thousands of digits": (10**5000, 3, 5.0),
    "bytes": (b"\xff", 3, 5.0),
    "half a pair": ("\ud800", 3, 5.0),
    "list": ([1], {}, [5.0]),
    "bool": (True, False, True),
    "empty": ("", "", ""),
    "plain": (7, 3, 5.0),
}
INSIDE = ("floats", "written", "above", "below", "plain")  # those of a listed user and item


def with_row(before, row, times=1):
    """The interactions and one row more, or the same row several times."""
    columns = before.users.tolist(), before.items.tolist(), before.ratings.tolist()
    more = ([*column, *[value] * times] for column, value in zip(columns, row, strict=True))
    return Interactions(*more, invalid="drop")


def dropping(before):
    """The same interactions, made for a private path."""
    return Interactions(before.users, before.items, before.ratings, invalid="drop")


def everyone(before):
    """All users of the interactions by rising ids: the public list where all of them are public."""
    return np.unique(before.users)


def released_to_all(mechanism, before, **terms):
    """Profiles of all users of the interactions, who are public here."""
    return mechanism.release(before, users=everyone(before), **terms)


def nothing():
    return Interactions([], [], [], invalid="drop")


def silent(call):
    """What it returns; any warning is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return call()


def same_outside(one, other):
    """Whether two released objects have the same arrays but for their values, and the same text."""
    left, right = vars(one), vars(other)
    assert left.keys() == right.keys()
    for name, value in left.items():
        if isinstance(value, np.ndarray):
            assert (value.dtype, value.shape) == (right[name].dtype, right[name].shape), name
    assert str(one.statement) == str(other.statement)
    assert repr(one) == repr(other)
