"""The sentence of an error with a command's options in place of the library's parameters."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from sfumato.errors import ParameterError, ParameterTypeError

__all__ = ["command_of", "in_options"]

# Options of another name than the parameter; the first that the command has is the one.
OTHER_NAMES = {
    "basket": ("--basket-column",),
    "dictionary_size": ("--dictionary",),
    "id": ("--id-column",),
    "item": ("--item-column",),
    "items": ("--item-column",),
    "min": ("--min",),
    "false_positive_rate": ("--error",),
    "n": ("-n", "--top", "--capacity"),
    "n_clusters": ("--clusters",),
    "n_reports": ("--reports",),
    "on_error": ("--skip-bad",),
    "random_state": ("--random-state", "--seed"),
    "sample": ("--attacked",),
    "ratings": ("--rating-column",),
    "size": ("--max-size",),
    "source": ("--source-column",),
    "space_gain": ("--gain",),
    "target": ("--target-column",),
    "times": ("--time-column",),
    "top_n": ("--top",),
    "users": ("--accounts", "--user-column"),
    "weight": ("--weight-column",),
}
READER = "read_interactions"
# Values of parameters that have an option of their own, by the parameter and the value.
OF_VALUES = {("on_error", "skip"): "--skip-bad", ("rerank", "none"): "--rerank none"}
ASSIGNED = re.compile(r"(?<![\w.-])([a-z]\w*)=(True|False|'\w+'|)(?=[\s,.;:)]|$)")
PAIR = re.compile(r"(--?[a-z-]+) (and|or) ([a-z]\w*)(?= (?:go|must|exclude)\b)")
PYTHON = (", a numpy.random.Generator or None", "n_samples=")  # what is no option's value
MISSING = re.compile(r"there is no column '([^']*)'")


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
    written = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
    options = _options(command)
    if getattr(error, "owner", "") == READER and "--user-column" in written:
        options["users"] = "--user-column"  # whose --users are a public list
    about = _parameter(error, sentence)
    if about and about not in options and _is_set(about, arguments):
        options = {**options, about: f"--set {about}"}
    if about in options:
        sentence = re.sub(rf"^([^:]+: ){re.escape(about)} ", rf"\1{options[about]} ", sentence)
    for name, option in options.items():
        if "_" in name or len(about) == len(name) == 1:
            sentence = _replaced(sentence, name, option)
        sentence = sentence.replace(f"{option} must be None", f"{option} must be left out")
    sentence = PAIR.sub(lambda found: _paired(found, options), sentence)
    for words in PYTHON:
        sentence = sentence.replace(words, "")
    sentence = ASSIGNED.sub(lambda found: _assigned(found, options, written), sentence)
    return MISSING.sub(lambda found: found[0] + _naming(found[1], arguments), sentence)


def _paired(found: re.Match[str], options: dict[str, str]) -> str:
    """A plain word beside an option, as the option it names."""
    return f"{found[1]} {found[2]} {options.get(found[3], found[3])}"


def _assigned(found: re.Match[str], options: dict[str, str], written: set[str]) -> str:
    """The option that gives a parameter this value, or any; the text itself if there is none."""
    name, value = found[1], found[2].strip("'")
    if value in ("", "True"):
        option = options.get(name, "")
    elif value == "False":
        option = f"--no-{name.replace('_', '-')}"
    else:
        option = OF_VALUES.get((name, value), "")
    return option if option in written else found[0]


def _naming(column: str, arguments: Sequence[str]) -> str:
    """The option among the arguments that names this column, in brackets; "" if none does."""
    for option, value in pairwise(arguments):
        named = {side for part in value.split(",") for side in part.split("=")}
        if option.startswith("-") and column in named:
            return f" ({option})"
    given = [each.partition("=") for each in arguments if each.startswith("--")]
    return next((f" ({option})" for option, _, value in given if value == column), "")


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
