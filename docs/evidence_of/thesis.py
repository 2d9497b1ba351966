"""Rows of the thesis, and of the paper that repeats four of its figures."""

from evidence_of.rows import NUMBERLESS, SAME, Row, percent, read, table

__all__ = ["details", "paper", "thesis"]

CHAPTER_3 = "python benchmarks/thesis_ch3.py"
CHAPTER_4 = "python benchmarks/thesis_ch4.py"
CHAPTER_5 = "python benchmarks/thesis_ch5.py"
REBUILT = "[reconstruction](reconstruction.md)"
FACTORS = "[factorization](factorization.md)"
CODES = "[codes](codes.md)"
NO_DIGG = "Digg is not available; Last.fm stands in its place"
LIMITS = "EachMovie, MovieLens-10M and Netflix are not available; generated worlds have their shape"
RATINGS, USERS, ITEMS = 100_000, 943, 1_682  # of MovieLens-100K


def cosine(found, epsilon, attack, key="epsilon"):
    row = next(row for row in found["movielens"]["rows"] if row[key] == epsilon)
    return row["attacks"][attack]["cosine"]["mean"]


def precision(found, value, attack, key="epsilon"):
    row = next(row for row in found["movielens"]["rows"] if row[key] == value)
    return row["attacks"][attack]["average_precision"]["mean"]


def tradeoff(found, kind, epsilon):
    rows = found["tradeoff"]["movielens"]["rows"]
    return next(row for row in rows if row["kind"] == kind and row["epsilon"] == epsilon)


def chapter_3(found):
    blip, jlt = found["blip"], found["jlt"]
    most = max(map(max, found["information"]["difference"]))
    average, share = RATINGS / USERS, RATINGS / USERS / ITEMS
    data = (
        f"{USERS} users (600 known, 343 attacked), {ITEMS:,} items, {average:.0f} a profile, "
        f"{percent(share, 2)}"
    )
    two = tradeoff(found, "BLIP", 8), tradeoff(found, "JLT", 8)
    sides = [f"{row['privacy']:.2f} / {row['neighbour_recall']:.3f}" for row in two]
    return [
        Row(
            "Table 3.1",
            "data of the attacks",
            "MovieLens: 943 users (600 and 343), 1,682 items, 106, 6.30 %; Digg: 531 users",
            data,
            f"{SAME}; {NO_DIGG}",
            CHAPTER_3,
            REBUILT,
        ),
        Row(
            "Figure 3.1",
            "nats of an item: joint beyond single decoder",
            "up to 1.25 nats, 3.5 times more items",
            f"up to {most:.2f} nats, {2.718281828**most:.1f} times more",
            "**differs**: equation 3.18 of the thesis holds for half-full filters only",
            CHAPTER_3,
            REBUILT,
        ),
        Row(
            "Figure 3.2",
            "BLIP, cosine of the rebuilt profile",
            "epsilon 8: item by item below popularity, sampler almost 0.5; at 0 at most 0.23",
            f"epsilon 8: item by item {cosine(blip, 8, 'single'):.2f}, popularity "
            f"{cosine(blip, 8, 'popularity'):.2f}, sampler {cosine(blip, 8, 'joint, prior'):.2f}, "
            f"best {cosine(blip, 8, 'messages, taste'):.2f}; at 0 "
            f"{cosine(blip, 0, 'popularity'):.2f}",
            f"{SAME} in order and size; ours is higher at 0, where the thesis' estimate of "
            f"sizes fails. {NO_DIGG}",
            CHAPTER_3,
            REBUILT,
        ),
        Row(
            "Figure 3.3",
            "JLT, cosine of the rebuilt profile",
            "very close to BLIP",
            f"sigma 1: item by item {cosine(jlt, 1, 'single', 'sigma'):.2f}, popularity "
            f"{cosine(jlt, 1, 'popularity', 'sigma'):.2f}, sampler "
            f"{cosine(jlt, 1, 'joint, prior', 'sigma'):.2f}; sigma 6 and more: popularity",
            f"{SAME} in shape; the thesis' noise levels hold at a delta near 0.1. {NO_DIGG}",
            CHAPTER_3,
            REBUILT,
        ),
        Row(
            "Figure 3.4",
            "BLIP, mAP@10",
            "close to 0.5 at epsilon 0",
            f"{precision(blip, 0, 'popularity'):.2f} at 0, "
            f"{precision(blip, 8, 'joint, prior'):.2f} at 8",
            f"{SAME}; {NO_DIGG}",
            CHAPTER_3,
            REBUILT,
        ),
        Row(
            "Figure 3.5",
            "JLT, mAP@10",
            "much the same as BLIP",
            f"{precision(jlt, 61, 'popularity', 'sigma'):.2f} at sigma 61, "
            f"{precision(jlt, 1, 'joint, prior', 'sigma'):.2f} at sigma 1",
            f"{SAME}; {NO_DIGG}",
            CHAPTER_3,
            REBUILT,
        ),
        Row(
            "Figure 3.6",
            "utility against privacy",
            "JLT slightly better than BLIP",
            f"epsilon 8, privacy / neighbours found: BLIP {sides[0]}, JLT {sides[1]}",
            f"{SAME}: more neighbours at equal privacy; minima and short JLT are better still. "
            f"{NO_DIGG}",
            CHAPTER_3,
            REBUILT,
        ),
    ]


def heat(rows, depth):
    """Lowest and highest RMSE of a heat map at this depth."""
    found = [row["rmse"] for row in rows if row.get("depth") == depth]
    return f"{min(found):.3f} to {max(found):.3f}"


def swept(rows, kind, **wanted):
    return next(
        row
        for row in rows
        if row["kind"] == kind and all(row.get(name) == value for name, value in wanted.items())
    )["splits"]["mean"]


def chapter_4(found):
    maps, each_movie = found["heat_map"]["rows"], found["heat_map_eachmovie"]["rows"]
    last = {name: rows[-1] for name, rows in found["convergence"]["rows"].items() if name[0] != "m"}
    one_pass = {(row["kind"], row["size"]): row["rmse"] for row in found["dynamic"]["rows"][1:]}
    sweep = found["sweep"]["rows"]
    kinds = ("dense", "sketch, depth 4", "hashing")
    plain = [swept(sweep, kind, biases="means", epochs=100, regularization=0.0) for kind in kinds]
    best = [swept(sweep, kind, biases="means", epochs=100, chosen=True) for kind in kinds]
    lambdas = [row["regularization"] for row in maps if "depth" in row]
    clipped = [row for row in found["clipping"]["rows"] if row.get("factors") == 32]
    dense, sketched = (
        [row for row in clipped if row["kind"] == kind] for kind in ("dense", "sketch, gain 1")
    )

    def line(rows, name):
        return ", ".join(f"{row[name]:.3f}" for row in rows)

    return [
        Row(
            "Table 4.1",
            "data of the factorizations",
            "MovieLens-1M 1,000,209 ratings; EachMovie, MovieLens-10M, Netflix",
            f"MovieLens-1M {found['table'][0]['ratings']:,}",
            LIMITS,
            CHAPTER_4,
            FACTORS,
        ),
        Row(
            "Table 4.2",
            "RMSE, d = 32, gain 1",
            "see below",
            "see below",
            f"{SAME} in order on MovieLens-1M; hashing is far better than theirs. {LIMITS}",
            CHAPTER_4,
            FACTORS,
        ),
        Row(
            "Figure 4.1",
            "RMSE over factors and gain, MovieLens-1M",
            "falls along the diagonal, depth 4 below hashing",
            f"hashing {heat(maps, 1)}, depth 4 {heat(maps, 4)}",
            f"{SAME} in shape; every second value of each axis",
            CHAPTER_4,
            FACTORS,
        ),
        Row(
            "Figure 4.2",
            "the same, EachMovie",
            "the same shape",
            f"hashing {heat(each_movie, 1)}, depth 4 {heat(each_movie, 4)}",
            f"{SAME} in shape, on generated data: EachMovie is not available",
            CHAPTER_4,
            FACTORS,
        ),
        Row(
            "Figure 4.3",
            "convergence, MovieLens-10M",
            "the sketch converges fastest",
            ", ".join(f"{name} {value:.3f}" for name, value in last.items()) + " after 20 epochs",
            "**not reproduced**: dense is ahead after the first epochs; k times more updates act "
            "like a larger rate. MovieLens-10M is not available",
            CHAPTER_4,
            FACTORS,
        ),
        Row(
            "Figure 4.4",
            "one pass, EachMovie",
            "the sketch is best from 7 factors up; the others get worse with size",
            ", ".join(f"{kind} {one_pass[kind, 16]:.3f}" for kind in kinds) + " at size 16",
            "**half reproduced**: the sketch beats hashing, dense beats both and does not get "
            "worse. EachMovie is not available",
            CHAPTER_4,
            FACTORS,
        ),
        Row(
            "Figure 4.5",
            "RMSE over lambda, EachMovie",
            "best near 0.1; without regularization the sketch is best",
            "lambda 0, 100 epochs: "
            + ", ".join(f"{kind} {value:.3f}" for kind, value in zip(kinds, plain, strict=True))
            + "; best lambda: "
            + ", ".join(f"{value:.3f}" for value in best),
            f"{SAME} without regularization; with a good lambda dense is ahead. MovieLens-1M in "
            "place of EachMovie",
            CHAPTER_4,
            FACTORS,
        ),
        Row(
            "Figure 4.6",
            "best lambda over factors and gain",
            "often below 0.01; falls with gain",
            f"{min(lambdas):g} to {max(lambdas):g}",
            "**differs**: 0.005 where cells are plenty, larger where collisions leave nothing to "
            "learn",
            CHAPTER_4,
            FACTORS,
        ),
        Row(
            "Figure 4.7",
            "RMSE over the clip",
            "falls as the clip grows; from 16 as without",
            f"clip 2, 4, 8, none: dense {line(dense, 'rmse')}; sketch {line(sketched, 'rmse')}",
            f"{SAME} in shape. The clip is no epsilon of a proof: our statement says *measured*",
            CHAPTER_4,
            FACTORS,
        ),
        Row(
            "Figure 4.8",
            "divergence over the clip",
            "grows with the clip; dense above sketches for most settings",
            f"clip 2, 4, 8, none: dense {line(dense, 'kld')}; sketch {line(sketched, 'kld')}",
            "the growth is reproduced, the order **differs**: with lambda chosen for each, dense "
            "leaks less than the sketch of its size",
            CHAPTER_4,
            FACTORS,
        ),
    ]


def chapter_5(found):
    at = {kind: next(r for r in found["figure_5_1"][kind] if round(r["cosine"], 2) == 0.55)
          for kind in ("LSH", "qoLSH")}  # fmt: skip
    ranks = found["figure_5_2"]["ranks"]
    first, tenth, last = (ranks.index(rank) for rank in (1, 10, 1000))
    sphere = found["figure_5_2"]["synthetic"]
    images = found["figure_5_2"]["descriptors"]["curves"]
    curves = ", ".join(
        f"{name} {sphere[name][tenth]:.3f} / {sphere[name][last]:.3f}"
        for name in ("LSH", "anti-sparse", "optimal", "qoLSH")
    )
    like = ", ".join(
        f"{name} {images[name][first]:.2f} / {images[name][tenth]:.2f}"
        for name in ("LSH", "LSH+frame", "qoLSH")
    )
    return [
        Row(
            "Table 5.1",
            "error, entropy and time of codes",
            "see below",
            "see below",
            f"{SAME}; anti-sparse codes are better than theirs (solved exactly), all times shorter",
            CHAPTER_5,
            CODES,
        ),
        Row(
            "Figure 5.1",
            "bias of the estimated cosine",
            "qoLSH has less bias and noise than LSH",
            f"at cosine 0.55: LSH {at['LSH']['mean']:.3f} ({at['LSH']['low']:.2f} to "
            f"{at['LSH']['high']:.2f}), qoLSH {at['qoLSH']['mean']:.3f} "
            f"({at['qoLSH']['low']:.2f} to {at['qoLSH']['high']:.2f})",
            SAME,
            CHAPTER_5,
            CODES,
        ),
        Row(
            "Figure 5.2",
            "recall@R, sphere and SIFT1M",
            "qoLSH beats LSH and anti-sparse early; beats the optimal code at large R",
            f"sphere, R = 10 / 1000: {curves}; descriptors, R = 1 / 10: {like}",
            f"{SAME}; SIFT1M is not available, generated descriptors are harder",
            CHAPTER_5,
            CODES,
        ),
    ]


def thesis():
    """All tables and figures of the thesis, in order."""
    memory = read("recommending")["memory"]
    users = f"{memory['new_users']:,}"
    fixed = (
        f"{users} new users: the table stays at {memory['nbytes'] / 2**20:.0f} MiB; error grows "
        "with collisions (figure 4.1)"
    )
    parts = "profiles and their attacks, factorization in a sketch and its audit, binary codes"
    overview = "all three contributions are rooms here: " + parts
    attacked = chapter_3(read("thesis_ch3"))
    summarised = [
        attacked[0]._replace(name="Table 1", topic="table 3.1, in its summary"),
        *attacked,
    ]
    return [
        Row("Table 1.1", "the contributions", "BLIP, JLT; count sketch; LSH", overview, SAME,
            NUMBERLESS, "[how it works](how_it_works.md)"),
        Row("Figure 1.1", "map of the contributions", NUMBERLESS, overview, SAME,
            NUMBERLESS, "[how it works](how_it_works.md)"),
        *summarised,
        *chapter_4(read("thesis_ch4")),
        *chapter_5(read("thesis_ch5")),
        Row("Figure 6.1", "map of the contributions, with gaps", "private mechanisms for "
            "retrieval are left open", "private signs (`Signs`) and minima (`Minima`) fill one",
            "goes on from it", CHAPTER_3, "[profiles](profiles.md)"),
        Row("Table 6.1", "sketch: fixed size, variable error; dense: the reverse", NUMBERLESS,
            fixed, SAME, "python benchmarks/recommending.py", FACTORS),
    ]  # fmt: skip


def paper():
    """The tables and figures of the paper on private factorization."""
    again = {row.name: row for row in chapter_4(read("thesis_ch4"))}
    same = {"Table 1": "Table 4.1", "Figure 1": "Figure 4.5", "Figure 2": "Figure 4.6",
            "Figure 3": "Figure 4.7", "Figure 4": "Figure 4.8"}  # fmt: skip
    return [
        again[other]._replace(name=name, topic=f"{again[other].topic} (as {other.lower()} above)")
        for name, other in same.items()
    ]


def details():
    """The numbers of tables 4.2 and 5.1 side by side."""
    kinds = ("dense", "sketch, depth 4", "hashing")
    rows = [row for row in read("thesis_ch4")["table"] if row["kind"] in kinds]
    errors = [
        (row["data"], row["kind"], f"{row['thesis']:.3f}", f"{row['rmse']['mean']:.3f}")
        for row in rows
    ]
    codes = [
        (
            row["method"],
            *(
                f"{row['thesis'][name]:,g} / {row[name]['mean']:,.{digits}f}"
                for name, digits in (("mse", 3), ("entropy", 2), ("microseconds", 2))
            ),
        )
        for row in read("thesis_ch5")["table_5_1"]
    ]
    return [
        "**Table 4.2**, RMSE. Rows of generated data stand for shape only: their numbers cannot "
        "be compared.",
        "",
        *table(("data", "model", "thesis", "ours"), errors),
        "",
        "**Table 5.1**, thesis / ours.",
        "",
        *table(("code", "squared error", "entropy, bits", "us a vector"), codes),
        "",
    ]
