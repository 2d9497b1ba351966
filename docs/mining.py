"""Draws the pictures of docs/mining.md, clustering.md and ranking.md (make docs).

    python docs/mining.py

The sets are read from the folder that SFUMATO_DATA names.
"""

import gzip
import os
import sys
from io import BytesIO
from pathlib import Path

import numpy as np

from sfumato.core.file_format import write_atomic
from sfumato.mine.cluster import Hierarchical, KMeans, choose_k, plot_clusters, plot_dendrogram
from sfumato.mine.itemsets import association_rules, frequent_itemsets, read_baskets
from sfumato.mine.rank import pagerank, plot_ranks, read_graph
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
    return png(plot_s_curve(curve, found["similarity"], threshold=THRESHOLD))


def png(figure):
    out = BytesIO()
    figure.savefig(out, dpi=120)
    return out.getvalue()


def blobs():
    """Six clusters of two columns."""
    rng = np.random.default_rng(7)
    centres = rng.uniform(0, 20, (6, 2))
    return np.concatenate([rng.normal(centre, 1, (300, 2)) for centre in centres])


def elbow(data):
    return png(choose_k(blobs(), range(1, 13), random_state=0).figure())


def clusters(data):
    model = KMeans(6, random_state=0).fit(blobs())
    return png(plot_clusters(blobs(), model.labels_, centres=model.cluster_centers_))


def dendrogram(data):
    """Words by edit distance, which have no mean."""
    words = ["kitten", "sitting", "mitten", "bitten", "rose", "rise", "nose", "noise", "hope"]
    words += ["hop", "shop", "milk", "silk"]
    model = Hierarchical(4, metric="edit", linkage="average").fit(words)
    return png(plot_dendrogram(model, names=words))


def ranks(data):
    """PageRank of the users of Slashdot, without links to themselves."""
    path = data / "graphs" / "soc-Slashdot0902.txt.gz"
    return png(plot_ranks(pagerank(read_graph(path, self_loops="drop"))))


PICTURES = {
    "mining_rules": rules,
    "mining_s_curve": s_curve,
    "clustering_elbow": elbow,
    "clustering_clusters": clusters,
    "clustering_dendrogram": dendrogram,
    "ranking_distribution": ranks,
}


if __name__ == "__main__":
    beside = DOCS.parents[1] / "shared" / "data"
    folder = Path(os.environ.get("SFUMATO_DATA", beside))
    if not folder.is_dir():
        sys.exit(f"docs/mining.py: there is no folder {folder}; SFUMATO_DATA names one.")
    for name, draw in PICTURES.items():
        write_atomic(DOCS / f"{name}.png", draw(folder))
