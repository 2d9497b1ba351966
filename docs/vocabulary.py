"""Counts words of the old house language, and the field's words for them, in trees of source.

    python docs/vocabulary.py OLD/src/sfumato src/sfumato

prints one row per word with its count in each tree: as a word anywhere (code and prose), and among
these as a name of Python. `tests/integration/test_vocabulary.py` holds the names at zero.
"""

import json
import re
import sys
import tokenize
from collections import Counter
from pathlib import Path

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results" / "vocabulary.json"
# The old word (a regular expression) and what the field says; `house` words first.
OLD = {
    "told|tells?": "estimate, released, stated, given",
    "asked": "query, requested",
    "had": "previous, interactions",
    "seen": "observed, excluded, training",
    "kept": "retained, stored",
    "places?": "index, position",
    "shares?": "fraction, weight; secret share",
    "chances?": "probability",
    "laws?": "distribution",
    "whole": "integer, entire, atomic",
    "spread": "variance, standard deviation",
    "reach": "sensitivity, tail bound",
    "alike": "similar, equal",
    "held|holds": "stored, contains",
    "rest|left": "residual, remainder",
    "free": "unconstrained, unbiased",
    "crowd": "population prior",
    "guest": "cold-start user, fold-in",
    "shelf": "catalogue",
    "taste": "latent-factor prior",
    "touched|heaviest": "sensitivity, max weight",
    "[Tt]erms|[Pp]lan|[Oo]ptions": "request, calibrated release, options",
    "marks?|cells?|cohorts?": "bit, bucket, cohort",
    "wrong|odd|strange": "invalid, malformed, unknown",
    "so many": "n, number of",
    "an? (?:line|row) each|an? row an? \\w+": "one per row",
    "one more or less": "add/remove adjacency",
    "hides|promises?|proved": "is (epsilon, delta)-DP",
}
FIELD = [
    "probability|probabilities",
    "distributions?",
    "variances?",
    "sensitivity|sensitivities",
    "sampling",
    "shrinkage",
    "posterior",
    "estimates?",
    "index|positions?",
    "integers?",
    "duplicates?",
    "candidates?",
    "catalogues?",
]


def texts(root: Path) -> str:
    """All source below a folder as one text."""
    return "\n".join(path.read_text() for path in sorted(root.rglob("*.py")))


def names(root: Path) -> Counter[str]:
    """How often each name of Python occurs below a folder, by its lower-case parts."""
    found: Counter[str] = Counter()
    for path in sorted(root.rglob("*.py")):
        with path.open() as file:
            for token in tokenize.generate_tokens(file.readline):
                if token.type == tokenize.NAME:
                    found.update(parts(token.string))
    return found


def parts(name: str) -> set[str]:
    """The words of a name: `_told_apart` and `ToldApart` are told and apart."""
    return {each.lower() for each in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def count(pattern: str, text: str) -> int:
    """How often a word occurs."""
    return len(re.findall(rf"\b(?:{pattern})\b", text))


def main() -> None:
    """Print the table; of two trees, write it as benchmarks/results/vocabulary.json too."""
    roots = [Path(each) for each in sys.argv[1:] or ["src/sfumato"]]
    read = [(texts(root), names(root)) for root in roots]
    print(f"| word | {' | '.join(f'{root} (names)' for root in roots)} | the field's |")
    print(f"|---|{'---|' * len(roots)}---|")
    rows = []
    for pattern, words in [*OLD.items(), *((each, "") for each in FIELD)]:
        counts = [(count(pattern, text), named(pattern, found)) for text, found in read]
        shown = " | ".join(f"{number} ({of_names})" for number, of_names in counts)
        print(f"| {pattern.replace('|', ', ')} | {shown} | {words} |")
        rows.append(
            {"word": pattern, "words": [n for n, _ in counts], "names": [n for _, n in counts]}
        )
    if len(roots) == 2:
        RESULTS.write_text(
            json.dumps({"trees": ["before", "after"], "rows": rows}, indent=1) + "\n"
        )


def named(pattern: str, found: Counter[str]) -> int:
    """How many names contain a word."""
    return sum(n for each, n in found.items() if re.fullmatch(pattern, each))


if __name__ == "__main__":
    main()
