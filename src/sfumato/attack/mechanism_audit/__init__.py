"""Lower bounds of epsilon from samples of a mechanism."""
