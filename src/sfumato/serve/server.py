"""Run the service: uvicorn with uvloop and guarded connections, one worker, graceful at its end."""

import gc
import signal
import socket
import sys
from typing import Any

from sfumato.errors import ParameterError
from sfumato.serve.config import ServiceConfig
from sfumato.serve.logs import LEVELS, configure, log

__all__ = ["serve"]

SWITCH = 0.0005  # seconds after which a thread yields: the event loop must not wait for the writer
BACKLOG = 2048


def serve(config: ServiceConfig, *, pages: Any = ()) -> None:
    """Serve until the process gets SIGTERM or SIGINT; then finish what is under way.

    Parameters
    ----------
    config : ServiceConfig
        Settings.
    pages : iterable of starlette.routing.BaseRoute, default=()
        Further routes, as for `create_app`.

    Notes
    -----
    **Guarantee.** After SIGTERM no connection is accepted, requests under way are answered, waiting
    events are written, the trainer stores its snapshot, and the process ends with code 0.

    Examples
    --------
    >>> serve(ServiceConfig(database="shop.db"))  # doctest: +SKIP
    """
    import uvicorn

    from sfumato.serve.app import create_app
    from sfumato.serve.protection.connections import guarded

    if config.log_level not in LEVELS:
        raise ParameterError.of("ServiceConfig", "log_level", f"must be of {', '.join(LEVELS)}.")
    configure(config.log_level)
    sys.setswitchinterval(SWITCH)
    listener = _listener(config.host, config.port)
    host, port = listener.getsockname()[:2]
    app = create_app(config, pages=pages)
    settings = uvicorn.Config(
        app,
        loop="uvloop",
        http=guarded(app.state.service),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # no address is read
        date_header=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=int(config.shutdown_seconds) or 1,
        timeout_keep_alive=75,
    )
    gc.freeze()  # a full collection need not look at modules while requests wait
    log("info", "listening", host=host, port=port)
    server = uvicorn.Server(settings)
    for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn raises them again when all is done
        signal.signal(number, lambda *_: None)
    try:
        server.run(sockets=[listener])
    finally:
        gc.unfreeze()  # extensions complain of what is left at the end
    if not server.started:
        raise OSError("the service could not start; the log names the cause.")


def _listener(host: str, port: int) -> socket.socket:
    """Return a bound socket, so that port 0 is known before anything else starts."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise OSError(f"{host}:{port}: {error.strerror}.") from None
    return listener
