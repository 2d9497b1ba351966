"""Checks the docstring of every public name: numpydoc's form, and the signature's own words.

Run by `make lint`; prints one line per fault and exits with 1 if there is any. numpydoc's validator
reads sections, order and punctuation. Beyond that, the type and the default of each parameter and
the type of the result must be those of the signature, classes and functions need an example that
runs, and a fitted attribute (its name ends in an underscore) an entry under Attributes. There is
no list of exceptions: what `docs/api.py` calls public is checked.
"""

import ast
import functools
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

import api
from numpydoc.docscrape import NumpyDocString
from numpydoc.validate import Validator, validate

# Not checked: text on the line of the quotes is our layout (GL01); an extended summary (ES01), a
# See Also section (SA01) and, here, an example (EX01, see `faults`) are for where they help.
UNCHECKED = {"GL01", "ES01", "SA01", "EX01"}
# What stands in a docstring for a name in an annotation; of all others, the name itself.
WORDS = {
    "np.ndarray": "ndarray",
    "Column": "array_like",
    "Matrix": "array_like",
    "Ids": "array_like or scalar",
    "Fold": "callable",
    "Key": "scalar",
    "Keys": "array_like or scalar",
    "Mapped": "callable",
    "Step": "callable",
    "T": "object",
    "Bytes": "bytes_like",
    "os.PathLike": "path_like",
    "Sequence": "sequence",
    "Mapping": "mapping",
    "Iterable": "iterable",
    "Iterator": "iterator",
    "Callable": "callable",
    "Collection": "collection",
    "RandomState": "int, Generator or None",
    "Progress": "callable",
    "np.random.Generator": "Generator",
    "Count": "int",
    "Port": "int",
    "Positive": "float",
}
# The docstring says what the annotation cannot; so also for type variables, which are one letter.
FREE = {"Any", "object", "Unpack", "R", "S"}


def documented() -> Iterator[tuple[str, Any, str | None, str]]:
    """Every public object once: name, object, docstring (own or inherited) and its kind."""
    found = set()
    for path, name, thing in api.public():
        if not getattr(thing, "__module__", "").startswith("sfumato") or id(thing) in found:
            continue
        found.add(id(thing))
        if inspect.isclass(thing):
            yield f"{path}.{name}", thing, vars(thing).get("__doc__"), "class"
            yield from members(f"{path}.{name}", thing, found)
        elif inspect.isroutine(thing):
            yield f"{path}.{name}", thing, thing.__doc__, "function"


def members(path: str, kind: type, found: set[int]) -> Iterator[tuple[str, Any, str | None, str]]:
    """The public methods and properties of a class that our code defines."""
    for name in dir(kind):
        held = inspect.getattr_static(kind, name, None)
        function = getattr(held, "__func__", held)
        what = "method"
        if isinstance(held, (property, functools.cached_property)):
            function, what = held.fget if isinstance(held, property) else held.func, "property"
        if name.startswith("_") or not inspect.isfunction(function) or id(function) in found:
            continue
        if function.__module__.startswith("sfumato"):
            found.add(id(function))
            yield f"{path}.{name}", function, inherited(kind, name, function), what


def inherited(kind: type, name: str, function: Any) -> str | None:
    """The docstring that `help` shows: the method's own, or that of the nearest base."""
    if function.__doc__:
        return function.__doc__
    for base in kind.__mro__:
        held = vars(base).get(name)
        doc = getattr(held, "__doc__", None)
        if doc and getattr(base, "__module__", "").startswith("sfumato"):
            return doc
    return None


def faults(thing: Any, text: str | None, what: str) -> Iterator[str]:
    """What is wrong with a docstring, one sentence each."""
    if not (text or "").strip():
        yield "GL08 no docstring"
        return
    if "TODO" in text:
        yield "TODO left in the text"
    yield from form_faults(thing, text, what)
    if what == "property":
        return
    doc = NumpyDocString(inspect.cleandoc(text))
    yield from signature_faults(thing, doc, what)
    if what != "class":
        yield from result_faults(thing, doc)
    else:
        yield from attribute_faults(thing, doc)
    if what != "method" and not text.count(">>>"):
        yield "EX01 no example"


def form_faults(thing: Any, text: str, what: str) -> Iterator[str]:
    """What numpydoc's validator says."""
    shown = thing
    if what != "class" and thing.__doc__ != text:  # inherited
        shown = functools.wraps(thing)(lambda: None)
        shown.__doc__, shown.__signature__ = text, inspect.signature(thing)
    if what == "property":
        shown = property(shown)
    with mock.patch.object(Validator, "_load_obj", staticmethod(lambda name: shown)):
        errors = validate("shown")["errors"]
    yield from (f"{code} {sentence}" for code, sentence in errors if code not in UNCHECKED)


def signature_faults(thing: Any, doc: NumpyDocString, what: str) -> Iterator[str]:
    """Parameters whose type or default differs from the signature's."""
    types, given = parameter_types(thing, what), parameters(thing)
    for names, text, _ in doc["Parameters"]:
        for name in (each.lstrip("*\\") for each in names.split(", ")):
            if name in given:
                yield from parameter_faults(name, text, types.get(name), given[name])


def parameter_faults(
    name: str, text: str, annotation: ast.expr | None, parameter: inspect.Parameter
) -> Iterator[str]:
    """One parameter: `text` is what stands after its colon."""
    kind, default = split_default(text)
    if annotation is not None and not agrees(kind, annotation):
        yield f"TY01 {name}: type {kind!r} is {words(annotation)!r} in the signature"
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        return
    wanted = "" if parameter.default is parameter.empty else f"default={shown(parameter.default)}"
    if wanted == "default=...":
        wanted = "optional"
    if default != wanted:
        yield f"TY02 {name}: {default or 'no default'!r} is {wanted or 'no default'!r} there"


def split_default(text: str) -> tuple[str, str]:
    """Type and default, of "int, default=4"."""
    found = re.fullmatch(r"(.*?)(?:, (default=.*|optional))?", text, re.S)
    return found[1].strip(), (found[2] or "").strip()


def shown(value: Any) -> str:
    """A default as a docstring has it."""
    return f'"{value}"' if isinstance(value, str) else api.shown(value)


def result_faults(thing: Any, doc: NumpyDocString) -> Iterator[str]:
    """A result whose type differs from the signature's."""
    node = api.node_of(thing)
    if node is None or node.returns is None or len(doc["Returns"]) != 1:
        return
    if not agrees(doc["Returns"][0].type, node.returns):
        yield f"TY03 returns {doc['Returns'][0].type!r}, {words(node.returns)!r} in the signature"


def attribute_faults(kind: type, doc: NumpyDocString) -> Iterator[str]:
    """Fitted attributes without an entry."""
    named = {each for names, _, _ in doc["Attributes"] for each in names.split(", ")}
    fitted = {name for name in api.annotations(kind) if re.fullmatch(r"[a-z]\w*[a-z0-9]_", name)}
    for name in sorted(fitted - named):
        yield f"AT01 {name} has no entry under Attributes"
    known = {*dir(kind), *api.annotations(kind), *parameters(kind)}
    for name in sorted(named - known - set(assigned(kind))):
        yield f"AT02 {name}, under Attributes, is not found"


def assigned(kind: type) -> Iterator[str]:
    """Names that methods of the class and its bases set on self."""
    for each in kind.__mro__:
        if each.__module__.startswith("sfumato"):
            yield from re.findall(r"\bself\.(\w+)\b", inspect.getsource(each))


def parameters(thing: Any) -> Mapping[str, inspect.Parameter]:
    """The parameters of a call, none where Python itself defines it, as of exceptions."""
    try:
        return inspect.signature(thing).parameters
    except ValueError:
        return {}


def parameter_types(thing: Any, what: str) -> dict[str, ast.expr]:
    """Annotations of the parameters as the source has them."""
    node = api.node_of(thing.__init__ if what == "class" else thing)
    if node is None:
        fields = api.annotations(thing) if what == "class" else {}
        return {name: ast.parse(text, mode="eval").body for name, text in fields.items()}
    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    every += [each for each in (node.args.vararg, node.args.kwarg) if each]
    return {each.arg: each.annotation for each in every if each.annotation}


def agrees(text: str, annotation: ast.expr) -> bool:
    """Whether a docstring's type says what the annotation says, or more exactly so."""
    expected, given = alternatives(words(annotation)), alternatives(text)
    if not text or any(each in FREE for each in expected):
        return bool(text)
    return all(any(narrows(g, e) for e in expected) for g in given) and all(
        any(narrows(g, e) for g in given) for e in expected
    )


def narrows(given: str, expected: str) -> bool:
    """Whether a type is the expected one, or choices of it, or tells more of its parts."""
    if given.startswith("{"):
        return expected in ("str", "int", "float", "bool", given)
    plain, wanted = (re.split(r" of | with |\[|\(", each)[0].strip() for each in (given, expected))
    return plain.rpartition(".")[2] == wanted


def alternatives(text: str) -> list[str]:
    """The parts of "int, str or None", braces left whole."""
    parts = re.split(r"(\{[^}]*\}|\([^)]*\)|\[[^]]*\])", text)
    for at in range(1, len(parts), 2):
        parts[at] = parts[at].replace(",", "\0").replace(" or ", "\1")
    found = re.split(r", (?:or )?| or ", "".join(parts))
    return [each.replace("\0", ",").replace("\1", " or ").strip() for each in found]


def words(node: ast.expr) -> str:
    """An annotation in the words of a docstring."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return words(ast.parse(node.value, mode="eval").body)
    if isinstance(node, ast.BinOp):
        found = dict.fromkeys(alternatives(words(node.left)) + alternatives(words(node.right)))
        *first, last = found
        if {"str", "path_like"} <= set(found):
            *first, last = [each for each in found if each != "str"]
        return f"{', '.join(first)} or {last}" if first else last
    if isinstance(node, ast.Subscript):
        outer = ast.unparse(node.value)
        if outer in ("Annotated", "ClassVar", "Unpack"):
            inner = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) else node.slice
            return "Unpack" if outer == "Unpack" else words(inner)
        if outer == "Literal":
            return "{" + ast.unparse(node.slice).strip("()").replace("'", '"') + "}"
        return WORDS.get(outer, outer)
    name = ast.unparse(node)
    return WORDS.get(name, name.rpartition(".")[2])


def main() -> int:
    """Print the faults, those of the names given on the command line alone if there are any."""
    wanted, total = tuple(sys.argv[1:]), 0
    for name, thing, text, what in documented():
        home = f"{thing.__module__}.{thing.__qualname__}"
        if wanted and not any(each in home or name.startswith(each) for each in wanted):
            continue
        found = list(faults(thing, text, what))
        total += bool(found)
        for each in found:
            print(f"{home}: {each}")
    print(f"{total} docstrings of public names with faults")
    return int(total > 0)


if __name__ == "__main__":
    sys.exit(main())
