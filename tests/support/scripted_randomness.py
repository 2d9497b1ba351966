"""Random bits that are known beforehand, to drive samplers into their corners."""

import numpy as np


class Constant:
    """A source whose bits are all alike, so that everything stays open as long as it can."""

    def __init__(self, byte):
        self.byte = byte

    def fill(self, out):
        out.reshape(-1).view(np.uint8)[:] = self.byte
