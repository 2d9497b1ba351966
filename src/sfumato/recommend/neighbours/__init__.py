"""User-based collaborative filtering."""

from sfumato.recommend.neighbours.user_neighbours import UserNeighbours

__all__ = ["UserNeighbours"]
