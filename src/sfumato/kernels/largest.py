"""The n largest of a stream of scores, kept in a heap whose first place holds the worst of them.

A heap is two arrays, places and scores, that begin as -1 and -inf. Worse means a smaller score or,
where scores are equal, a later place, so that ties go to the place that stands first.
"""

from ._jit import inline, kernel

__all__ = ["largest", "offer", "order", "ordered"]


@inline
def _worse(place, score, other_place, other_score):
    return score < other_score or (score == other_score and place > other_place)


@inline
def _sink(place, score, size, places, scores):
    """Put an entry in at the top and let it sink below all that are worse."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        other = child + 1
        if other < size and _worse(places[other], scores[other], places[child], scores[child]):
            child = other
        if not _worse(places[child], scores[child], place, score):
            break
        places[at], scores[at] = places[child], scores[child]
        at = child
    places[at], scores[at] = place, score


@inline
def offer(place, score, places, scores):
    """Keep the score if it is above the worst one; places are offered in rising order."""
    if score > scores[0]:
        _sink(place, score, scores.size, places, scores)


@inline
def order(places, scores):
    """Turn the heap into a list, best first."""
    for size in range(scores.size - 1, 0, -1):
        place, score = places[size], scores[size]
        places[size], scores[size] = places[0], scores[0]
        _sink(place, score, size, places, scores)


@kernel
def ordered(places, scores):
    """Every row, a heap, becomes a list, best first."""
    for q in range(scores.shape[0]):
        order(places[q], scores[q])


@kernel
def largest(values, places, scores):
    """places[q], scores[q] = where the largest of values[q] stand, and these, largest first."""
    for q in range(values.shape[0]):
        for i in range(values.shape[1]):
            offer(i, values[q, i], places[q], scores[q])
        order(places[q], scores[q])
