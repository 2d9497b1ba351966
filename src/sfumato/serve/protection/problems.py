"""Errors of the service as application/problem+json: field, type and position, never values."""

import re
from typing import Any

import msgspec
from msgspec import Struct

from sfumato.errors import (
    BudgetExceeded,
    ParameterError,
    ParameterTypeError,
    SfumatoError,
    StoreUnavailable,
)

__all__ = ["Problem", "ProblemDocument", "problem_of"]

MEDIA_TYPE = b"application/problem+json"
TITLES = {
    400: "The request is malformed",
    401: "A key is needed",
    403: "The key does not permit this",
    404: "There is no such resource",
    405: "The method is not allowed",
    408: "The request came too slowly",
    409: "The request conflicts with the state",
    413: "The request is too large",
    415: "The media type is not supported",
    422: "A field is invalid",
    429: "Too many requests",
    431: "The head is too large",
    500: "The service failed",
    503: "The service is not available now",
}
PLACE = re.compile(r" - at `(?:key in )?\$?([^`]*)`$")
BYTE = re.compile(r"\(byte (\d+)\)")
ROW = re.compile(r"\brow (\d+)\b")
# Sentences of msgspec that quote what was sent, and what replaces them.
QUOTING = (
    (re.compile(r"^Object contains unknown field .*"), "has a field that is not known"),
    (re.compile(r"^Invalid enum value .*"), "must be one of the permitted values"),
    (re.compile(r"^Invalid value .*"), "must be one of the permitted values"),
    (re.compile(r"^Object missing required field `([a-z_]+)`.*"), r"lacks the field \1"),
    (re.compile(r"^Expected (.*)"), r"must be: \1"),
)
MISSING = re.compile(r"^Object missing required field `([a-z_]+)`")
EXPECTED = re.compile(r"^Expected `([^`]*)`")


class ProblemDocument(Struct, omit_defaults=True):
    """Body of every error (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str = ""
    field: str | None = None
    expected: str | None = None
    position: int | None = None


class Problem(Exception):  # noqa: N818 - an answer to a request, not a failure
    """An error that a client is to read.

    Parameters
    ----------
    status : int
        Status of HTTP.
    detail : str
        One sentence, free of personal data.
    kind : str
        Last part of the problem's type.
    field, expected, position
        Where in the request.
    headers
        Further headers.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        kind: str = "",
        field: str | None = None,
        expected: str | None = None,
        position: int | None = None,
        headers: list[tuple[bytes, bytes]] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers or []
        self.kind: str = kind or TITLES.get(status, "error").lower().replace(" ", "-")
        self.field, self.expected, self.position = field, expected, position

    def body(self) -> bytes:
        """Return the document."""
        title = TITLES.get(self.status, "Error")
        return msgspec.json.encode(
            ProblemDocument(
                f"urn:sfumato:problem:{self.kind}",
                title,
                self.status,
                self.detail,
                self.field,
                self.expected,
                self.position,
            )
        )


def problem_of(error: Exception) -> Problem | None:
    """Return what a client reads of an error of the library; None of a failure of the service."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, msgspec.DecodeError):
        return _malformed(error)
    if isinstance(error, UnicodeDecodeError | RecursionError):  # msgspec lets them through
        return Problem(400, "The body is no JSON in UTF-8 of a usual depth.", kind="no-json")
    if isinstance(error, StoreUnavailable):
        retry = [(b"retry-after", b"1")]
        detail = "The database cannot be written now; repeat with the same ids."
        return Problem(503, detail, kind="store-unavailable", headers=retry)
    if isinstance(error, BudgetExceeded):
        return Problem(409, str(error), kind="budget-exceeded")
    if isinstance(error, ParameterError | ParameterTypeError):
        return Problem(422, str(error), field=error.parameter, position=_row(str(error)))
    if isinstance(error, SfumatoError) and isinstance(error, ValueError | TypeError):
        return Problem(422, str(error), position=_row(str(error)))
    return None


def _row(sentence: str) -> int | None:
    found = ROW.search(sentence)
    return int(found[1]) if found else None


def _malformed(error: Exception) -> Problem:
    """Return the problem of a body that msgspec refuses, without anything that it contains."""
    message = str(error)
    if not isinstance(error, msgspec.ValidationError):
        byte = BYTE.search(message)
        at = f" at byte {byte[1]}" if byte else ""
        position = int(byte[1]) if byte else None
        return Problem(400, f"The body is no JSON{at}.", kind="no-json", position=position)
    found = PLACE.search(message)
    what = message[: found.start()] if found else message
    field = found[1].lstrip(".") if found else ""
    expected, missing = EXPECTED.match(what), MISSING.match(what)
    for pattern, sentence in QUOTING:
        what, changed = pattern.subn(sentence, what)
        if changed:
            break
    else:
        what = "is invalid"
    indexes = re.findall(r"\[(\d+)\]", field)
    what = what.replace("`", "")
    place = ".".join(filter(None, (field, missing[1]))) if missing else field
    return Problem(
        422,
        f"{field or 'The body'} {what}.",
        field=place or None,
        expected=expected[1] if expected else None,
        position=int(indexes[0]) if indexes else None,
    )


def unexpected(identifier: str) -> Problem:
    """Return the problem of a failure, which names the line of the log and nothing else."""
    return Problem(500, f"The log names the cause under request {identifier}.", kind="failure")


def not_found(what: str, **where: Any) -> Problem:
    """Return the problem of a name that there is not."""
    return Problem(404, f"There is no such {what}.", kind=f"no-{what.replace(' ', '-')}", **where)
