"""How much of the public API has types, as pyright counts it: fails below 95 % (make types).

    python docs/type_completeness.py PYRIGHT

PYRIGHT is the program. The package is read from `src`, and what it imports from this interpreter.
"""

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections import Counter
from pathlib import Path

LEAST = 0.95
ROOT = Path(__file__).resolve().parents[1]


def report(pyright):
    """What pyright finds, as its JSON says it."""
    paths = os.pathsep.join([str(ROOT / "src"), sysconfig.get_path("purelib")])
    line = [pyright, "--pythonpath", sys.executable, "--verifytypes", "sfumato"]
    line += ["--ignoreexternal", "--outputjson"]
    with tempfile.TemporaryDirectory() as empty:  # a folder that holds no package
        environment = {**os.environ, "PYTHONPATH": paths}
        done = subprocess.run(line, capture_output=True, text=True, cwd=empty, env=environment)
    return json.loads(done.stdout)["typeCompleteness"]


def main(pyright):
    found = report(pyright)
    score = found["completenessScore"]
    print(f"{score:.2%} of {sum(found['exportedSymbolCounts'].values()):,} public names have types")
    unknown = Counter(
        ".".join(each["name"].split(".")[:3])
        for each in found["symbols"]
        if each["isExported"] and (not each["isTypeKnown"] or each["isTypeAmbiguous"])
    )
    for module, count in unknown.most_common(10):
        print(f"{count:5} without in {module}")
    return score >= LEAST


if __name__ == "__main__":
    sys.exit(not main(os.path.abspath(sys.argv[1])))
