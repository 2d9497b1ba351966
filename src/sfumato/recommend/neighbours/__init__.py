"""Recommendations from users who are alike."""

from sfumato.recommend.neighbours.user_neighbours import UserNeighbours

__all__ = ["UserNeighbours"]
