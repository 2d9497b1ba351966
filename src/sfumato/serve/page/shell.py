"""The page's HTML, styles and scripts: the same bytes for everybody, without a key or data."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jinja2

import sfumato
from sfumato.serve.endpoint import Call, Endpoint, Headers, Reply
from sfumato.serve.protection.problems import not_found

__all__ = ["ENDPOINTS", "VIEWS", "View"]

HERE = Path(__file__).parent
MEDIA_TYPES = {
    ".css": b"text/css; charset=utf-8",
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".txt": b"text/plain; charset=utf-8",
}
# Scripts and styles are files of this service alone: nothing inline, nothing from elsewhere.
POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    b"connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Headers = [
    (b"content-security-policy", POLICY),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
]


@dataclass(frozen=True)
class View:
    """A view of the page: its address, its name and one line about it."""

    slug: str
    name: str
    about: str


VIEWS = (
    View("recommend", "Recommend", "A user's own list, the reasons for it, and the model."),
    View("lab", "Privacy lab", "What an attacker rebuilds of a generated profile."),
    View("telemetry", "Telemetry", "What many clients have, learned without any client's value."),
    View("density", "Density", "Where points lie, exact beside private."),
    View("budget", "Budget", "What was released, under which guarantee, and what is left."),
    View("health", "Health", "Throughput, lag and errors of this service."),
)


@cache
def _files() -> dict[str, tuple[bytes, bytes]]:
    """Return media type and bytes of every file: views by slug, others by name.

    Names are looked up here and never become a path, so that no other file can be reached.
    """
    found = dict(_views())
    for path in sorted((HERE / "static").iterdir()):
        if path.suffix in MEDIA_TYPES:
            found[path.name] = MEDIA_TYPES[path.suffix], path.read_bytes()
    return found


def _views() -> Iterator[tuple[str, tuple[bytes, bytes]]]:
    """Render each view once; templates see names of views and the version, nothing else."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for view in VIEWS:
        template = environment.get_template(f"{view.slug}.html")
        text = template.render(views=VIEWS, view=view, version=sfumato.__version__)
        yield view.slug, (MEDIA_TYPES[".html"], text.encode())


async def get_start(call: Call) -> Reply:
    """Return the first view."""
    return _reply(VIEWS[0].slug)


async def get_file(call: Call) -> Reply:
    """Return a view, a style or a script."""
    return _reply(call.path("name"))


def _reply(name: str) -> Reply:
    found = _files().get(name)
    if found is None:
        raise not_found("file", field="name")
    media_type, body = found
    return Reply(body, media_type=media_type, headers=list(HEADERS))


# Not among the routes of /openapi.json: they answer without a key, and carry no data.
ENDPOINTS = [
    Endpoint("GET", "/", get_start, None, bytes, media_type="text/html"),
    Endpoint("GET", "/page/{name}", get_file, None, bytes, media_type="text/html"),
]
