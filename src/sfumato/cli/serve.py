"""`sfumato serve`: run the HTTP service."""

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["serve"]


def serve(
    database: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Path of a SQLite file, or postgresql://..."),
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Port to listen on; 0 takes a free one; default: 8000.")
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on; default: 127.0.0.1.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="TOML file of settings; SFUMATO_... variables and options win."),
    ] = None,
    trainer: Annotated[
        bool | None, typer.Option("--trainer/--no-trainer", help="Whether to learn from events.")
    ] = None,
    log_level: Annotated[
        str | None, typer.Option(help="debug, info, warning or error; default: info.")
    ] = None,
) -> None:
    """Serve events, recommendations and private statistics over HTTP.

    It runs until SIGTERM or Ctrl-C.
    """
    try:
        from sfumato.serve import load_config
        from sfumato.serve import serve as run

        flags = dict(database=database, port=port, host=host, trainer=trainer, log_level=log_level)
        settings = load_config(config, flags=flags)
        run(settings)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"serve needs {error.name}: install the extra with pip install 'sfumato[serve]'."
        ) from None
