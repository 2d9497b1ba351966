"""Runs the notebooks of this folder and stores what they print and draw.

    python examples/run.py                      # all
    python examples/run.py live_recommender     # some

It needs no Jupyter: the cells of code run in one namespace, in a folder of their own. The last
expression of a cell is shown, as in a notebook, and so is every figure of Matplotlib that is open.
"""

import ast
import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

HERE = Path(__file__).parent


def cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """The cells of code, in order."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def execute(notebook: dict[str, Any], name: str = "notebook") -> dict[str, Any]:
    """Run all cells of code and replace their outputs; an error stops it."""
    session: dict[str, Any] = {"__name__": "__main__"}
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for number, cell in enumerate(cells(notebook), start=1):
                cell["outputs"] = _outputs("".join(cell["source"]), session, f"{name}[{number}]")
                cell["execution_count"] = number
        finally:
            os.chdir(before)
            plt.close("all")
    return notebook


def _outputs(source: str, session: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """What one cell prints and draws."""
    tree, last = ast.parse(source, name), None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = ast.Expression(tree.body.pop().value)  # type: ignore[attr-defined]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, name, "exec"), session)
        value = eval(compile(last, name, "eval"), session) if last else None
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        outputs.append({"output_type": "stream", "name": "stdout", "text": text})
    outputs += [_picture(plt.figure(number)) for number in plt.get_fignums()]
    plt.close("all")
    if value is not None and not source.rstrip().endswith(";"):
        shown = {"text/plain": repr(value).splitlines(keepends=True)}
        outputs.append(
            {"output_type": "display_data", "data": shown, "metadata": {}},
        )
    return outputs


def _picture(figure: Any) -> dict[str, Any]:
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=90, bbox_inches="tight")
    data = {"image/png": base64.b64encode(image.getvalue()).decode()}
    return {"output_type": "display_data", "data": data, "metadata": {}}


def main() -> None:
    chosen = sys.argv[1:] or sorted(path.stem for path in HERE.glob("*.ipynb"))
    for name in chosen:
        path = HERE / f"{name}.ipynb"
        notebook = execute(json.loads(path.read_text()), name)
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
