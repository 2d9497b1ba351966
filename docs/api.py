"""Writes docs/api.txt, every public name with its signature, from the package itself (make docs).

Public are the rooms that `sfumato` names, the folders below them that name something in `__all__`,
and modules below them that a page of the documentation names; of each, what `__all__` lists. Of
classes follow the methods, properties and annotated attributes that our code defines. Signatures
are read from the source, so that they say `Column`, not what that stands for.
"""

import ast
import copy
import functools
import importlib
import inspect
import pkgutil
import re
import types
import typing
from pathlib import Path

import sfumato

HERE = Path(__file__).parent
PLACE = HERE / "api.txt"
SPECIAL = ("__call__", "__contains__", "__getitem__", "__iter__", "__len__")
PLAIN = (bool, int, float, str, bytes, type(None))


def modules():
    """The public modules, by name."""
    named = {f"sfumato.{name}": getattr(sfumato, name) for name in sfumato.__all__}
    rooms = {name: each for name, each in named.items() if isinstance(each, types.ModuleType)}
    found = {"sfumato": sfumato, **rooms}
    pages = "\n".join(
        p.read_text() for p in [HERE.parent / "README.md", *sorted(HERE.glob("*.md"))]
    )
    for room in rooms.values():
        for info in pkgutil.walk_packages(getattr(room, "__path__", []), f"{room.__name__}."):
            named = re.escape(info.name.removeprefix("sfumato."))
            if "._" in info.name or (not info.ispkg and not re.search(rf"\b{named}\b", pages)):
                continue
            module = importlib.import_module(info.name)
            if getattr(module, "__all__", None):
                found[info.name] = module
    return dict(sorted(found.items()))


def public():
    """Every public name, as (module, name, object); what is public twice, once at each place."""
    for path, module in modules().items():
        for name in sorted(module.__all__):
            thing = getattr(module, name)
            if not isinstance(thing, types.ModuleType) and name != "__version__":
                yield path, name, thing


def lines():
    """The lines of docs/api.txt."""
    places = {}
    for path, name, thing in sorted(public(), key=lambda each: (each[0].count("."), each[0])):
        if callable(thing):
            places.setdefault(thing, f"{path}.{name}")
    for path, name, thing in public():
        whole = f"{path}.{name}"
        if callable(thing) and places[thing] != whole:
            yield f"{whole} = {places[thing]}"
        elif inspect.isclass(thing):
            yield from described(whole, thing)
        elif inspect.isroutine(thing):
            yield f"{whole}{signature(thing)}"
        else:
            yield f"{whole}{constant(thing)}"


def described(whole, kind):
    """A class: itself, then what it has."""
    bases = [base.__name__ for base in kind.__bases__ if base is not object]
    bases = [name for name in bases if not name.startswith("_")]
    beside = f" [{', '.join(bases)}]" if bases else ""
    yield f"class {whole}{constructor(kind)}{beside}"
    fields = set(getattr(kind, "__dataclass_fields__", {}))
    fields |= set(kind._fields) if issubclass(kind, tuple) else set()
    texts = annotations(kind)
    names = {name for name in [*dir(kind), *texts] if not name.startswith("_")} - fields
    names = {name for name in names if not name.isupper()}
    for name in sorted(names | {name for name in SPECIAL if ours(kind, name)}):
        line = member(kind, name, texts)
        if line:
            yield f"{whole}.{line}"


def member(kind, name, texts):
    held = inspect.getattr_static(kind, name, None)
    function = getattr(held, "__func__", held)
    if isinstance(held, (property, functools.cached_property)):
        function = held.fget if isinstance(held, property) else held.func
        if not function.__module__.startswith("sfumato"):
            return ""
        return f"{name}: {signature(function).partition(' -> ')[2] or 'Any'} [property]"
    if inspect.isfunction(function):
        if not function.__module__.startswith("sfumato"):
            return ""
        mark = "" if function is held else f" [{type(held).__name__}]"
        return f"{name}{signature(function, bound=not isinstance(held, staticmethod))}{mark}"
    if name in texts:
        return f"{name}: {texts[name]}"
    return f"{name} = {shown(held)}" if ours(kind, name) and shown(held) != "..." else ""


def ours(kind, name):
    """Whether a class of ours defines the name."""
    owners = [each for each in kind.__mro__ if name in vars(each)]
    return bool(owners) and owners[0].__module__.startswith("sfumato")


def constructor(kind):
    maker = inspect.getattr_static(kind, "__init__")
    if inspect.isfunction(maker) and node_of(maker) is not None:
        return signature(maker, bound=True).partition(" -> ")[0]
    if issubclass(kind, BaseException) or getattr(kind, "_is_protocol", False):
        return ""
    if not {"__init__", "__new__"} & made(kind):
        return ""
    texts, given = annotations(kind), inspect.signature(kind).parameters.values()
    shown = [parameter_line(each, texts.get(each.name, "Any")) for each in given]
    only = [at for at, each in enumerate(given) if each.kind is each.KEYWORD_ONLY][:1]
    for at in only:
        shown.insert(at, "*")
    return f"({', '.join(shown)})"


def made(kind):
    """What a class of ours, such as a dataclass, defines itself."""
    return {
        name for each in kind.__mro__ if each.__module__[:7] == "sfumato" for name in vars(each)
    }


def parameter_line(parameter, text):
    line = f"{parameter.name}: {text}"
    if parameter.default is parameter.empty:
        return line
    return f"{line} = {shown(parameter.default)}"


def signature(function, bound=False):
    """Parameters and result of a function as its source has them, defaults by their values."""
    node = node_of(function)
    if node is None:
        return "(...)"
    tree, values = node.args, inspect.signature(inspect.unwrap(function)).parameters
    ordered = [*tree.posonlyargs, *tree.args]
    parts = [argument(each, values) for each in ordered]
    if tree.posonlyargs:
        parts.insert(len(tree.posonlyargs), "/")
    if bound:
        parts = parts[1:]
    if tree.vararg or tree.kwonlyargs:
        parts.append(f"*{argument(tree.vararg, {}) if tree.vararg else ''}")
    parts += [argument(each, values) for each in tree.kwonlyargs]
    if tree.kwarg:
        parts.append(f"**{argument(tree.kwarg, {})}")
    result = f" -> {unparsed(node.returns)}" if node.returns else ""
    return f"({', '.join(parts)}){result}"


def argument(node, values):
    text = f"{node.arg}: {unparsed(node.annotation)}" if node.annotation else node.arg
    if node.arg in values and values[node.arg].default is not inspect.Parameter.empty:
        text += f" = {shown(values[node.arg].default)}"
    return text


def shown(value):
    """A default or constant, the same whatever the machine and the version of Python."""
    if isinstance(value, (tuple, list)) and all(isinstance(each, PLAIN) for each in value):
        return repr(value)
    return repr(value) if isinstance(value, PLAIN) else "..."


def constant(thing):
    text = shown(thing)
    if callable(thing):
        return ": type alias"
    return f": {type(thing).__name__}" if text == "..." or len(text) > 100 else f" = {text}"


def node_of(function):
    """The definition in the source, or None where a function has none, as of dataclasses."""
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    if code is None or not function.__module__.startswith("sfumato"):
        return None
    node = definitions(code.co_filename).get((code.co_name, code.co_firstlineno))
    result = getattr(node, "returns", None)
    variable = isinstance(result, ast.Name) and function.__globals__.get(result.id)
    made = function.__annotations__.get("return")
    if isinstance(variable, typing.TypeVar) and isinstance(made, type):
        node = copy.copy(node)  # a method made for a subclass, with the result's own type
        node.returns = ast.Name(made.__name__)
    return node


@functools.cache
def definitions(path):
    """Functions of a file by name and first line, classes by name alone."""
    if not Path(path).is_file():
        return {}
    found = {}
    for node in ast.walk(ast.parse(Path(path).read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            found[node.name, first] = node
        elif isinstance(node, ast.ClassDef):
            found[node.name] = node
    return found


def annotations(kind):
    """Annotations in the bodies of our classes, as text, without the limits beside types."""
    found = {}
    for each in reversed(kind.__mro__):
        if not each.__module__.startswith("sfumato"):
            continue
        body = definitions(importlib.import_module(each.__module__).__file__).get(each.__name__)
        for node in body.body if body else ():
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found[node.target.id] = unparsed(node.annotation)
    return found


def unparsed(node):
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) in ("Annotated", "ClassVar"):
        inner = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) else node.slice
        return unparsed(inner)
    text = ast.unparse(node)
    return text if "Literal" in text else re.sub(r"'(\w+)'", r"\1", text)


def page():
    """The text of docs/api.txt."""
    return "\n".join(
        ["# Every public name. Written by `make docs` from the package.", *lines(), ""]
    )


if __name__ == "__main__":
    PLACE.write_text(page())
