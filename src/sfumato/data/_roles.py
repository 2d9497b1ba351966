"""Which columns hold users, items, ratings and times: as told, or by the names that are usual."""

import re
from collections.abc import Sequence

from sfumato.data._pieces import listed, missing_column

__all__ = ["ROLES", "Asked", "places_of"]

ROLES = ("users", "items", "ratings", "times")
Asked = dict[str, str | int | bool | None]  # by role; None: guess; False: there is none
USUAL = {
    "users": "user users userid uid customer customerid reviewer reviewerid account accountid",
    "items": "item items itemid iid movie movieid film filmid isbn book bookid product productid "
    "asin artist artistid song songid track trackid",
    "ratings": "rating ratings score scores stars bookrating overall value preference",
    "times": "timestamp time times date datetime ts unixreviewtime ratedat createdat",
}


def places_of(name: str, names: Sequence[str], asked: Asked) -> list[int]:
    """The places of users, items, ratings and, if there is one, times, in a source of this name.

    Parameters: names, of the columns; "" where they have none, and then the first four count.
    """
    places = [_place(name, names, role, asked[role]) for role in ROLES]
    found = [place for place in places if place is not None]
    if len(set(found)) < len(found):
        told = dict(zip(ROLES, places, strict=True))
        raise ValueError(f"{name}: two roles share a column: {told}; tell them apart.")
    return found


def _place(
    name: str, names: Sequence[str], role: str, asked: str | int | bool | None
) -> int | None:
    if asked is False and role == "times":
        return None
    if isinstance(asked, bool) or not isinstance(asked, str | int | None):
        raise TypeError(f"read_interactions: {role} must be a column's name or position.")
    if isinstance(asked, str):
        return _named(name, names, role, asked)
    if asked is not None:
        return _at(name, names, role, asked)
    return _guessed(name, names, role)


def _named(name: str, names: Sequence[str], role: str, asked: str) -> int:
    if not any(names):
        raise ValueError(f"{name}: has no header line; give {role} as a position, from 0.")
    if asked not in names:
        raise missing_column(name, asked, names)
    if list(names).count(asked) > 1:
        raise ValueError(f"{name}: two columns are named {asked!r}; give {role} as a position.")
    return list(names).index(asked)


def _at(name: str, names: Sequence[str], role: str, asked: int) -> int:
    if not 0 <= asked < len(names):
        last = len(names) - 1
        raise ValueError(f"{name}: {role} must be a position from 0 to {last}, not {asked}.")
    return asked


def _guessed(name: str, names: Sequence[str], role: str) -> int | None:
    if not any(names):
        place = ROLES.index(role)
        if place < len(names):
            return place
    usual = USUAL[role].split()
    plain = [re.sub(r"[^a-z0-9]", "", each.lower()) for each in names]
    for each in usual:
        if each in plain:
            return plain.index(each)
    if role == "times":
        return None
    there = listed(names) if any(names) else f"there are {len(names)} columns without names"
    raise ValueError(f"{name}: cannot tell the column of {role}; give {role}=; {there}.")
