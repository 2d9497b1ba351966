"""Kernels of `sfumato.mine`."""
