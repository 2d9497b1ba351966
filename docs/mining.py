"""Draws the pictures of docs/mining.md from real baskets and messages (make docs).

    python docs/mining.py

The sets are read from the folder that SFUMATO_DATA names.
"""

import gzip
import os
import sys
from io import BytesIO
from pathlib import Path

from sfumato.core.file_format import write_atomic
from sfumato.mine.itemsets import association_rules, frequent_itemsets, read_baskets
from sfumato.mine.similar import choose_bands, near_duplicates, plot_s_curve

DOCS = Path(__file__).parent
THRESHOLD = 0.5


def rules(data):
    """Rules of groceries: support against confidence, lift as colour."""
    found = frequent_itemsets(read_baskets(data / "groceries" / "groceries.csv.gz"), 0.001)
    return association_rules(found, min=0.3).figure("png")


def s_curve(data):
    """The S-curve that finds near-duplicates among text messages, and how similar pairs are."""
    with gzip.open(data / "sms-spam" / "sms_spam.csv.gz", "rt", encoding="latin-1") as file:
        texts = [line.split(",", 1)[1] for line in file][1:]
    found = near_duplicates(texts, 0.15)  # also below, where the curve lets candidates pass
    curve = choose_bands(THRESHOLD, 128, recall=0.99)
    out = BytesIO()
    plot_s_curve(curve, found["similarity"], threshold=THRESHOLD).savefig(out, dpi=120)
    return out.getvalue()


if __name__ == "__main__":
    beside = DOCS.parents[1] / "shared" / "data"
    folder = Path(os.environ.get("SFUMATO_DATA", beside))
    if not folder.is_dir():
        sys.exit(f"docs/mining.py: there is no folder {folder}; SFUMATO_DATA names one.")
    for name, draw in (("mining_rules", rules), ("mining_s_curve", s_curve)):
        write_atomic(DOCS / f"{name}.png", draw(folder))
