"""Run the service: uvicorn with uvloop and guarded connections, one worker, graceful at its end."""

import gc
import signal
import socket
import sys
from typing import Any

from sfumato.errors import ParameterError, SfumatoError
from sfumato.serve.config import ServiceConfig
from sfumato.serve.logs import LEVELS, configure, log

__all__ = ["serve"]

SWITCH = 0.0005  # seconds after which a thread yields: the event loop must not wait for the writer
BACKLOG = 2048
# Objects after which young ones are collected; those that last are looked at once in 20 times.
COLLECT = 50_000, 20, 1000


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
    log("info", "listening", host=host, port=port)
    server = _server(settings)
    for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn raises them again when all is done
        signal.signal(number, lambda *_: None)
    try:
        server.run(sockets=[listener])
    except SystemExit:  # of uvicorn, when the application could not start
        raise _cause(app.state.service.failure) from None
    finally:
        gc.unfreeze()  # extensions complain of what is left at the end


def _server(settings: Any) -> Any:
    """Return the server; collections do not hold up its requests."""
    import uvicorn

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            """Start; from now on no collection looks at modules, kernels and last items."""
            await super().startup(sockets)
            gc.collect()
            gc.freeze()
            gc.set_threshold(*COLLECT)

    return Server(settings)


def _cause(error: Exception | None) -> Exception:
    """Return an error whose sentence an operator may read; that of others may quote data."""
    if isinstance(error, SfumatoError | OSError):
        return error
    return OSError("the service could not start; the log names the cause.")


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
