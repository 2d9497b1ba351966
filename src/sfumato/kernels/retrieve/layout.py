"""How codes lie in memory, for kernels and those who fill their arrays; needs no compiler."""

__all__ = ["BLOCK"]

BLOCK = 64  # codes whose distances stay in eight registers; one word of `alive`
