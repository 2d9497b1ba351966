"""One session of Spark for all tests of a process, on threads of this machine."""

from support.engines import spark

__all__ = ["spark"]
