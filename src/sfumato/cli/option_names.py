"""The sentence of an error with a command's options in place of the library's parameters."""

import re
from collections.abc import Sequence
from typing import Any

from sfumato.errors import ParameterError, ParameterTypeError

__all__ = ["command_of", "in_options"]

# Options of another name than the parameter; the first that the command has is the one.
OTHER_NAMES = {
    "basket": ("--basket-column",),
    "id": ("--id-column",),
    "item": ("--item-column",),
    "items": ("--item-column",),
    "min": ("--min",),
    "false_positive_rate": ("--error",),
    "n": ("-n", "--top", "--capacity"),
    "n_clusters": ("--clusters",),
    "on_error": ("--skip-bad",),
    "random_state": ("--random-state", "--seed"),
    "ratings": ("--rating-column",),
    "size": ("--max-size",),
    "space_gain": ("--gain",),
    "times": ("--time-column",),
    "top_n": ("--top",),
    "users": ("--accounts", "--user-column"),
}


def command_of(group: Any, arguments: Sequence[str]) -> Any:
    """The command that these arguments call; the group itself where they name none."""
    command = group
    for argument in arguments:
        if not hasattr(command, "commands"):
            break
        command = command.commands.get(argument, command)
    return command


def in_options(sentence: str, error: Any, command: Any, arguments: Sequence[str]) -> str:
    """The sentence with options in place of parameters of the same or a known other name.

    A parameter that the sentence begins with is replaced whatever its name; other words only if
    they have an underscore, since a plain word may be meant as one.
    """
    options = _options(command)
    about = _parameter(error, sentence)
    if about and about not in options and _is_set(about, arguments):
        options = {**options, about: f"--set {about}"}
    for name, option in options.items():
        if name == about:
            sentence = re.sub(rf"^([\w.]+: ){re.escape(name)} ", rf"\1{option} ", sentence)
        if "_" in name:
            sentence = _replaced(sentence, name, option)
        sentence = sentence.replace(f"{option} must be None", f"{option} must be left out")
    return sentence


def _options(command: Any) -> dict[str, str]:
    """How each parameter is written on the command line, by its name in the library."""
    given = [each for each in command.params if each.opts and each.opts[0].startswith("-")]
    written = [option for each in given for option in each.opts]
    names = {
        name: next(option for option in others if option in written)
        for name, others in OTHER_NAMES.items()
        if any(option in written for option in others)
    }
    longest = {each: max(each.opts, key=len) for each in given}
    by_option = {shown.lstrip("-").replace("-", "_"): shown for shown in longest.values()}
    return {**names, **{each.name: shown for each, shown in longest.items()}, **by_option}


def _parameter(error: Any, sentence: str) -> str:
    """The parameter that an error is about; "" if it does not say."""
    if isinstance(error, ParameterError | ParameterTypeError):
        return error.parameter
    found = re.match(r"[\w.]+: ([a-z]\w*) must\b", sentence)
    return found[1] if found else ""


def _is_set(name: str, arguments: Sequence[str]) -> bool:
    return "--set" in arguments and any(each.startswith(f"{name}=") for each in arguments)


def _replaced(text: str, name: str, option: str) -> str:
    """The text with the name, where it stands alone, as the option."""
    alone = rf"(?<!--set )(?<![\w'\"./=-]){re.escape(name)}(?![\w'\"/=(-]|\.\w)"
    return re.sub(alone, option, text)
