"""Neighbours: similar users or items, whose lists or ratings are predicted from."""

from sfumato.recommend.neighbours.personal_neighbours import PersonalNeighbours
from sfumato.recommend.neighbours.rating_neighbours import RatingNeighbours
from sfumato.recommend.neighbours.user_neighbours import UserNeighbours

__all__ = ["PersonalNeighbours", "RatingNeighbours", "UserNeighbours"]
