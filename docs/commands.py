"""Writes docs/commands.md from the commands themselves (make docs)."""

from pathlib import Path

import typer

from sfumato.cli import app

HERE = Path(__file__).parent


def commands(command, path):
    """A command and, depth first, everything below it."""
    yield path, command
    for name in sorted(getattr(command, "commands", {})):
        yield from commands(command.commands[name], f"{path} {name}")


def described(parameter):
    names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
    if parameter.param_type_name == "argument":
        names = f"`{parameter.name.upper()}`"
    default = parameter.default
    if isinstance(getattr(parameter, "show_default", None), str):  # said in words
        default = parameter.show_default
    nothing = default is None or default is False or default == () or default == []
    shown = not nothing and not callable(default)
    help_text = " ".join((getattr(parameter, "help", None) or "").split())
    return f"| {names} | {help_text} | {f'`{default}`' if shown else ''} |"


def page():
    """The text of docs/commands.md."""
    lines = ["# The commands", "", "Written by `make docs` from the commands' own help.", ""]
    lines += ["Errors are one line and exit code 2; Ctrl-C is exit code 130.", ""]
    for path, command in commands(typer.main.get_command(app), "sfumato"):
        help_text = " ".join((command.help or "").split())
        lines += [f"## `{path}`", "", help_text, ""]
        wanted = [p for p in command.params if p.name not in ("help", "install_completion")]
        wanted = [p for p in wanted if p.name != "show_completion"]
        if wanted:
            lines += ["| parameter | meaning | default |", "|---|---|---|"]
            lines += [described(parameter) for parameter in wanted] + [""]
    return "\n".join(lines)


if __name__ == "__main__":
    (HERE / "commands.md").write_text(page())
