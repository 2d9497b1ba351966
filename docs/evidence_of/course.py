"""Rows of the big-data course: every method it teaches, and its worked examples."""

from evidence_of.rows import NUMBERLESS, SAME, Row, percent, read

__all__ = ["course"]

MINE, CLUSTERS = "[mining](mining.md)", "[clustering](clustering.md)"
MATRICES, RANKS = "[decomposition](decomposition.md)", "[ranking](ranking.md)"
MEASURES, MODELS = "[ranking_measures](ranking_measures.md)", "[recommend](recommend.md)"
LSH = "[retrieval](retrieval.md)"
SETS, SIMILAR = "tests/mine/itemsets", "tests/mine/similar"
GROUPS, PARTS, GRAPHS = "tests/mine/cluster", "tests/mine/decompose", "tests/mine/rank"
LISTS = "tests/recommend"
# Number of the item: what the course teaches, what does it here, the tests, the page. Lectures are
# numbered as they follow each other; 5 is recommenders, 6 links.
ITEMS = {
    "1.1": ("baskets and flat files", "`Baskets`, `read_baskets`", SETS, MINE),
    "1.2": ("support", "`frequent_itemsets`", SETS, MINE),
    "1.3": ("confidence of rules", "`association_rules`", SETS, MINE),
    "1.4": ("interest of rules", '`association_rules(metric="interest")`', SETS, MINE),
    "1.5": ("rules pruned by confidence", "`association_rules`; equal to exhaustive search",
        SETS, MINE),
    "1.6": ("cost in passes", "every result reports its passes", SETS, MINE),
    "1.7": ("triangular matrix or triples", 'chosen by size; `method="apriori"`', SETS, MINE),
    "1.8": ("Apriori", '`method="apriori"`', SETS, MINE),
    "1.9": ("hash functions", "64-bit hashes of any column", "tests/core",
        "[sketches](sketches.md)"),
    "1.10": ("PCY", '`method="pcy"`', SETS, MINE),
    "1.11": ("multistage", '`method="multistage"`', SETS, MINE),
    "1.12": ("multihash", '`method="multihash"`', SETS, MINE),
    "1.13": ("random sampling", '`method="sampling"`', SETS, MINE),
    "1.14": ("SON", '`method="son"`, also on Spark', SETS, MINE),
    "1.15": ("Toivonen", '`method="toivonen"`, with the negative border', SETS, MINE),
    "1.16": ("table of five algorithms", "measured: passes, candidates, false results", SETS, MINE),
    "2.1": ("shingles", "`shingles`", SIMILAR, MINE),
    "2.2": ("facts about shingles", "property tests", SIMILAR, MINE),
    "2.3": ("Jaccard similarity", "`MinHash`, `ShingleSets`", SIMILAR, MINE),
    "2.4": ("MinHash by permutations", "`permutation_ranks`, `explicit_signatures`", SIMILAR, MINE),
    "2.5": ("hashes (ax + b) mod p", "`linear_hashes`", SIMILAR, MINE),
    "2.6": ("signatures in one pass", "`signatures`, `linear_hashes`", SIMILAR, MINE),
    "2.7": ("all pairs by threshold", "`near_duplicates`", SIMILAR, MINE),
    "2.8": ("banding", "`near_duplicates`; all planted pairs found", SIMILAR, MINE),
    "2.9": ("1 - (1 - t^r)^b", "`candidate_probability`", "tests/retrieve/lsh", LSH),
    "2.10": ("threshold, exact and approximate", "`SCurve`", SIMILAR, MINE),
    "2.11": ("choice of b and r", "`choose_bands`", SIMILAR, MINE),
    "2.12": ("distances and their axioms", "`distances`, Hamming and edit too", SIMILAR, MINE),
    "2.13": ("(d1, d2, p1, p2) families", "`Sensitive`", "tests/retrieve/lsh", LSH),
    "2.14": ("OR-AND mirrors AND-OR", "`SCurve`", SIMILAR, MINE),
    "2.15": ("cascade of OR-AND and AND-OR", "`Sensitive`", "tests/retrieve/lsh", LSH),
    "2.16": ("fixed point of the curve", "`SCurve`", SIMILAR, MINE),
    "2.17": ("cosine by hyperplanes", "`CosineSketch`, `LshIndex`", "tests/retrieve/lsh", LSH),
    "2.18": ("Euclidean distance by lines", "`PStableSketch`, `LshIndex`",
        "tests/retrieve/lsh", LSH),
    "3.1": ("curse of dimensionality", "`neighbourhood_side`", GROUPS, CLUSTERS),
    "3.2": ("agglomerative clustering", "`Hierarchical`", GROUPS, CLUSTERS),
    "3.3": ("clustroids", "`Hierarchical`; equal to brute force", GROUPS, CLUSTERS),
    "3.4": ("single linkage, cohesion", "`Hierarchical`", GROUPS, CLUSTERS),
    "3.5": ("when to stop", "`Hierarchical`", GROUPS, CLUSTERS),
    "3.6": ("blobs and rings", "centroids win on blobs, single linkage on rings", GROUPS, CLUSTERS),
    "3.7": ("any distance", "`Hierarchical(metric=)`", GROUPS, CLUSTERS),
    "3.8": ("k-means", "`KMeans`; its loss never rises", GROUPS, CLUSTERS),
    "3.9": ("starts", "`KMeans(init=)`", GROUPS, CLUSTERS),
    "3.10": ("elbow", "`choose_k`, `ElbowCurve`", GROUPS, CLUSTERS),
    "3.11": ("BFR", "`BFR`; chi-square in place of 3 sqrt(d)", GROUPS, CLUSTERS),
    "3.12": ("CURE", "`CURE`", GROUPS, CLUSTERS),
    "3.13": ("purity, Rand index, entropy", "`purity`, `rand_index`, `entropy`", GROUPS, CLUSTERS),
    "4.1": ("truncated SVD", "`svd`", PARTS, MATRICES),
    "4.2": ("Eckart and Young", "`SVD`; error is the sum of the squares left out", PARTS, MATRICES),
    "4.3": ("energy", "`SVD`", PARTS, MATRICES),
    "4.4": ("power iteration", "`power_iteration`", PARTS, MATRICES),
    "4.5": ("SVD from A'A", '`svd(method="gram")`', PARTS, MATRICES),
    "4.6": ("queries in concept space", "`SVD`", PARTS, MATRICES),
    "4.7": ("CUR", "`cur`; U = C+ A R+, as the course's U can be worse than zero", PARTS, MATRICES),
    "4.8": ("duplicate columns", "`cur`", PARTS, MATRICES),
    "4.9": ("SVD, CUR and CUR without duplicates on DBLP", "", PARTS, MATRICES),
    "5.1": ("utility matrix, ratings from actions", "`Interactions`, `ratings_from_actions`",
        "tests/data", MODELS),
    "5.2": ("content-based lists", "`ContentBased`", LISTS, MODELS),
    "5.3": ("TF-IDF", "`TfIdf`", LISTS, MODELS),
    "5.4": ("user profiles", "`ContentBased`; the course's profiles by hand", LISTS, MODELS),
    "5.5": ("LSH buckets of items", "`ContentIndex`", LISTS, MODELS),
    "5.6": ("user-based neighbours", "`UserNeighbours`, `RatingNeighbours`", LISTS, MODELS),
    "5.7": ("item-based neighbours", "`ItemNeighbours`, `RatingNeighbours`", LISTS, MODELS),
    "5.8": ("hybrids", "`Hybrid`", LISTS, MODELS),
    "5.9": ("RMSE, precision, Spearman, ROC", "`metrics`", LISTS, MODELS),
    "5.10": ("neighbours around a baseline", "`RatingNeighbours`; the course's 3.8", LISTS, MODELS),
    "5.11": ("interpolation weights", "`InterpolationWeights`", LISTS, MODELS),
    "5.12": ("plain gradient descent", "`DenseFactorization`", LISTS, MODELS),
    "5.13": ("SVD with zeros", "`ImputedSVD`", LISTS, MODELS),
    "5.14": ("factors of known ratings", "`DenseFactorization`", LISTS, MODELS),
    "5.15": ("learned biases", "`DenseFactorization`", LISTS, MODELS),
    "5.16": ("change in time", "`TemporalMeans`, `TimeSVDpp`", LISTS, MODELS),
    "5.17": ("blend of predictors", "`BellKorBlend`", LISTS, MODELS),
    "6.1": ("flow equations", "`flow_equations`", GRAPHS, RANKS),
    "6.2": ("power iteration of ranks", "`walk_distribution`", GRAPHS, RANKS),
    "6.3": ("dead ends and spider traps", "`pagerank`, beta .8", GRAPHS, RANKS),
    "6.4": ("teleports", "`pagerank`", GRAPHS, RANKS),
    "6.5": ("leaked rank put back", "`pagerank`; sums to 1", GRAPHS, RANKS),
    "6.6": ("sparse encoding: 1e9 nodes, 10 links each", "`DiskCost`", GRAPHS, RANKS),
    "6.7": ("on disk, in blocks, in stripes", "`pagerank_on_disk`; bytes counted", GRAPHS, RANKS),
    "6.8": ("topic-specific PageRank", "`pagerank(teleport=)`", GRAPHS, RANKS),
    "6.9": ("random walk with restart, SimRank", "`random_walk_with_restart`, `simrank`",
        GRAPHS, MEASURES),
    "6.10": ("HITS, TrustRank, spam mass", "`hits`, `trustrank`, `spam_mass`", GRAPHS, MEASURES),
    "6.11": ("link farms, beta .85", "`LinkFarm`; the formula drops (1 - beta) / N",
        GRAPHS, MEASURES),
    "6.12": ("search by terms, then rank", "`TextIndex`", GRAPHS, RANKS),
}  # fmt: skip


def decomposed():
    """Accuracy of SVD and CUR on the data that stand for DBLP."""
    rows = [row for row in read("decompose")["table"] if row["set"] == "movielens-1m"]
    return "MovieLens-1M: " + ", ".join(
        f"{row['way']} {percent(row['accuracy'], 1)}" for row in rows
    )


def course():
    """All items of the course, in order."""
    examples = read("course")["examples"]
    rows = []
    for name, (topic, here, tests, page) in ITEMS.items():
        theirs, ours, verdict = NUMBERLESS, here, "built and tested"
        command = f"python -m pytest {tests}"
        if name in examples:
            theirs, value = examples[name]["course"], examples[name]["ours"]
            ours, verdict = f"{here}: {value}", SAME
            command = "python benchmarks/course.py"
        elif name == "4.9":
            theirs, ours = "accuracy, space and time as curves", decomposed()
            verdict = "DBLP is not available; ratings stand in its place"
            command = "python benchmarks/decompose.py"
        rows.append(Row(name, topic, theirs, ours, verdict, command, page))
    return rows
