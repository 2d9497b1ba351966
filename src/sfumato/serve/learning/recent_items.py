"""The last items of the last users, in bounded memory: they are not recommended again."""

from sfumato.store.events import EventBatch

__all__ = ["RecentItems"]


class RecentItems:
    """Last items by user.

    Parameters
    ----------
    users : int
        Users that are remembered; of more, those that came first are dropped.
    items : int
        Last items of each.
    """

    def __init__(self, users: int, items: int) -> None:
        self._users, self._items = users, items
        self._of: dict[str, list[str]] = {}

    def __len__(self) -> int:
        return len(self._of)

    def add(self, batch: EventBatch) -> None:
        """Remember events."""
        known, longest = self._of, self._items
        users, items = batch.lists()[:2]
        for user, item in zip(users, items, strict=True):
            own = known.get(user)
            if own is None:
                known[user] = [item]
            elif item != own[-1]:
                own.append(item)
                if len(own) > longest:
                    del own[0]
        while len(known) > self._users:
            del known[next(iter(known))]

    def of(self, user: str) -> list[str]:
        """Return a user's last items, oldest first."""
        return self._of.get(user, [])

    def forget(self, user: str) -> None:
        """Drop a user."""
        self._of.pop(user, None)
