"""`sfumato store`: describe, back up, restore and migrate a store, and hand out its API keys."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.options import Json

__all__ = ["app", "info"]

app: typer.Typer = typer.Typer(
    help="Back up and upgrade a service's store; manage its keys.",
    no_args_is_help=False,
    rich_markup_mode=None,
)
keys: typer.Typer = typer.Typer(
    help="Manage the API keys of a service.",
    no_args_is_help=False,
    rich_markup_mode=None,
)
app.add_typer(keys, name="keys")
Location = Annotated[
    str,
    typer.Argument(
        metavar="STORE", help="Path of a SQLite store, or postgresql://user@host:port/database."
    ),
]
Backup = Annotated[Path, typer.Argument(metavar="BACKUP", help="A file that store backup wrote.")]


@app.command()
def info(store: Location, json: Json = False) -> None:
    """Show what a store contains.

    It counts events, snapshots, releases, metrics, keys and erasures.
    """
    from sfumato.cli import printing

    with _open(store) as opened:
        printing.document(asdict(opened.info()), json)


@app.command()
def backup(
    store: Location,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to write; it must not exist.")
    ],
    json: Json = False,
) -> None:
    """Write a backup of a store, while others go on writing."""
    from sfumato.cli import printing

    with _open(store) as opened:
        counts = opened.backup(output)
    printing.document({"file": str(output), "nbytes": output.stat().st_size, **counts}, json)


@app.command()
def restore(backup: Backup, store: Location, json: Json = False) -> None:
    """Fill a new store from a backup of either database."""
    from sfumato.cli import printing
    from sfumato.store import restore_store

    printing.document(dict(restore_store(backup, store)), json)


@app.command()
def migrate(store: Location, json: Json = False) -> None:
    """Upgrade the tables of a store to this version."""
    from sfumato.cli import printing
    from sfumato.store import migrate_store

    before, after = migrate_store(store)
    printing.document({"version_before": before, "version": after}, json)


@keys.command("create")
def create_key(
    store: Location,
    name: Annotated[str, typer.Argument(help="What the key is for.")],
    scope: Annotated[list[str], typer.Option(help="ingest, read or admin; repeat it for several.")],
    json: Json = False,
) -> None:
    """Create a key, and show its secret once.

    The secret is stored nowhere. A store is made if there is none.
    """
    from sfumato.cli import printing
    from sfumato.store import open_store

    with open_store(store) as opened:
        key, secret = opened.create_key(name, scope)
    printing.document({**_described(key), "secret": secret}, json)


@keys.command("list")
def list_keys(store: Location, json: Json = False) -> None:
    """List all keys, without their secrets."""
    from sfumato.cli import printing

    with _open(store) as opened:
        printing.rows([_described(key) for key in opened.api_keys()], json)


@keys.command("revoke")
def revoke_key(
    store: Location,
    key_id: Annotated[str, typer.Argument(metavar="KEY", help="As store keys list shows it.")],
    json: Json = False,
) -> None:
    """Revoke a key for ever."""
    from sfumato.cli import printing

    with _open(store) as opened:
        if not opened.revoke_key(key_id):
            raise ValueError("there is no such key, or it is revoked; see store keys list.")
    printing.document({"key_id": key_id, "revoked": True}, json)


def _open(location: str) -> Any:
    """A store that is there."""
    from sfumato.store import open_store

    return open_store(location, create=False)


def _described(key: Any) -> dict[str, Any]:
    from datetime import UTC, datetime

    def moment(seconds: float | None) -> str | None:
        if seconds is None:
            return None
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")

    return {
        "key_id": key.key_id,
        "name": key.name,
        "scopes": " ".join(key.scopes),
        "created": moment(key.created),
        "revoked": moment(key.revoked),
    }
