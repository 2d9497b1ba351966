"""Compiled loops; a module of kernels, and Numba with it, is loaded when a kernel is first used."""

from sfumato.kernels import _on_first_use

_on_first_use.install()
