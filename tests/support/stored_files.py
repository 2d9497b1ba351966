"""A small file of every kind that any loader of ours reads, by the loader that reads it.

`LOADERS` says how each is read and which error it may raise; `examples` makes the bytes. What a
room can write is found by discovery: `written_kinds` lists it, `kinds_in` what the examples hold.
"""

import importlib
import json
import math
import pkgutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import sfumato

LARGEST = 24_000  # bytes of an example: small ones are read quickly


def from_file(read: Callable[[Path], Any]) -> Callable[[bytes], Any]:
    """A loader of paths as one of bytes."""

    def load(data: bytes) -> Any:
        with tempfile.NamedTemporaryFile(dir=_folder()) as file:
            file.write(data)
            file.flush()
            return read(Path(file.name))

    return load


def _folder() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def _loaders() -> dict[str, tuple[Callable[[bytes], Any], tuple[type[Exception], ...]]]:
    import_all()  # so that the releases of every room are known
    from sfumato import density, recommend, retrieve, sketch, telemetry
    from sfumato.density.noise_shares import NoisyShare
    from sfumato.privacy.mechanisms.base import Answer
    from sfumato.privacy.statement import PrivacyStatement
    from sfumato.recommend.base import ModelFormatError
    from sfumato.retrieve.file_format import IndexFormatError
    from sfumato.telemetry.schemes.base import read_scheme

    flawed = sketch.SketchFormatError
    params, published = _schemes()["rappor"], _schemes()["published"]
    return {
        "sketch": (sketch.load, (flawed,)),
        "density": (density.load, (flawed,)),
        "sampler": (_sampler_release, (flawed,)),
        "share": (NoisyShare.from_bytes, (flawed,)),
        "model": (recommend.load, (ModelFormatError, flawed)),
        "index": (from_file(retrieve.load), (IndexFormatError,)),
        "counts": (telemetry.Counts.from_bytes, (flawed,)),
        "scheme": (read_scheme, (ValueError,)),
        "answer": (Answer.from_bytes, (ValueError,)),
        "statement": (lambda data: PrivacyStatement.from_json(data), (ValueError,)),
        "reports": (lambda data: list(telemetry.read_reports(data, params)), ()),
        "params.csv": (from_file(telemetry.read_params_csv), (ValueError,)),
        "counts.csv": (from_file(lambda p: telemetry.read_counts_csv(p, published)), (ValueError,)),
        "map.csv": (from_file(lambda p: telemetry.read_map_csv(p, published)), (ValueError,)),
        "reports.csv": (
            from_file(lambda p: telemetry.read_reports_csv(p, published)),
            (ValueError,),
        ),
    }


def _sampler_release(data: bytes) -> Any:
    """The release of a sampler's file, which `sfumato.load` returns; the sampler must read it."""
    from sfumato import density

    return density.load(data).release_


class _Lazy(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        self.update(_loaders())
        return self[name]


LOADERS: dict[str, Any] = _Lazy()


def examples() -> list[tuple[str, bytes]]:
    """Loader and bytes of each example."""
    made = [
        *(("sketch", data) for data in _sketches()),
        *(("sketch", data) for data in _mined()),
        *(("density", data) for data in _estimators()),
        *(("sampler", data) for data in _samplers()),
        *(("model", data) for data in _models()),
        *(("index", data) for data in _indexes()),
        *_telemetry(),
        *_answers(),
        *(("sketch", data) for data in _streams()),
    ]
    return [(loader, data) for loader, data in made if len(data) <= LARGEST]


def _sketches() -> Iterator[bytes]:
    from sfumato.density.projection_histograms import SliceTable
    from sfumato.sketch import Race
    from sfumato.sketch.lsh import (
        Angular,
        Euclidean,
        Jaccard,
        MixtureKernel,
        PowerKernel,
        ProductKernel,
        WeightedSum,
    )
    from support.release_cases import RELEASES
    from support.sketch_contract import SKETCHES, feed

    for factories in SKETCHES.values():
        for make in factories:
            yield feed(make(1), slice(0, 50)).to_bytes()
    for cases in RELEASES.values():
        for case in cases:
            yield case.release().to_bytes()
    near, turned = Euclidean(1.0, (-3, 3), dimension=2), Angular(2, 2)
    for family in (
        ProductKernel(near, turned),
        MixtureKernel(near, turned),
        PowerKernel(turned, 2),
        WeightedSum([(0.5, near), (0.5, turned)]),
        Jaccard(),
    ):
        yield Race(4, 8, family).to_bytes()
    box = ((-3.0,) * 3, (3.0,) * 3)
    rows = np.random.default_rng(0).normal(size=(20, 3))
    yield SliceTable(box, projections=2, bins=4).update(rows).to_bytes()
    yield from _profiles()


def _profiles() -> Iterator[bytes]:
    from sfumato.data import Interactions
    from sfumato.privacy.random_source import InsecureSeededSource
    from sfumato.profile import Blip, Jlt, Minima, Signs

    world = Interactions(np.repeat([7, 4], 6), np.arange(12), np.ones(12))
    named = Interactions(["ann"] * 6 + ["bob"] * 6, np.arange(12), np.ones(12))
    terms = dict(source=InsecureSeededSource(7), unit="item of a profile")
    for data, users in ((world, [4, 7, 9]), (named, ["ann", "bob"])):
        yield Blip(bits=64, hashes=2, epsilon=1).release(data, users=users, **terms).to_bytes()
        cost = dict(epsilon=1, delta=1e-6)
        for mechanism in (Jlt(dimensions=4, **cost), Signs(bits=20, **cost)):
            yield mechanism.release(data, users=users, **terms).to_bytes()
        yield Minima(bins=8, epsilon=1).release(data, users=users, **terms).to_bytes()


def _mined() -> Iterator[bytes]:
    from sfumato.mine.itemsets import FrequentItems, FrequentPairs, PopularNow, PrivateItemsets
    from sfumato.privacy.random_source import InsecureSeededSource

    baskets = [["Sekret tea", "milk"], ["milk", "rum", "Sekret tea"], ["milk"]] * 20
    yield FrequentItems(2).update(baskets).to_bytes()
    yield FrequentPairs(2).update([[1, 2], [1, 2, 3]]).to_bytes()
    yield PopularNow(0.1).update(["Sekret tea", "milk"]).to_bytes()
    for delta, vocabulary in ((0.0, ["milk", "rum", "gin"]), (1e-3, None)):
        model = PrivateItemsets(20, delta, max_items=3, max_size=3, vocabulary=vocabulary)
        yield model.fit(baskets, source=InsecureSeededSource(7)).release_.to_bytes()
    yield from _decomposed()
    yield from _graphs()
    yield from _clustered()


def _decomposed() -> Iterator[bytes]:
    from sfumato.mine.decompose import FrequentDirections, cur, svd

    matrix = [[5, 5, 0, 0], [4, 5, 0, 0], [0, 0, 4, 5], [1, 0, 5, 5]]
    yield svd(matrix, 2).to_bytes()
    yield svd(np.array(matrix, np.float32), 1).to_bytes()
    yield cur(matrix, 3, 3).to_bytes()
    yield FrequentDirections(2, 4).update(matrix * 3).to_bytes()


def _graphs() -> Iterator[bytes]:
    from sfumato.mine.rank import PrivateDegreeHistogram, Triangles
    from sfumato.privacy.random_source import InsecureSeededSource

    edges = [[f"Sekret {a}", f"Sekret {b}"] for a in range(6) for b in range(a)]
    yield Triangles(64).update([a for a, _ in edges], [b for _, b in edges]).to_bytes()
    yield Triangles(16).update(np.arange(99) % 10, np.arange(99) % 7).to_bytes()
    for options in ({}, dict(method="sequence", nodes=range(4)), dict(method="histogram")):
        model = PrivateDegreeHistogram(2.0, max_degree=5, **options)
        yield model.fit(edges, source=InsecureSeededSource(7)).release_.to_bytes()


def _clustered() -> Iterator[bytes]:
    from sfumato.mine.cluster import BFRSummary, PrivateBFR, PrivateKMeans
    from sfumato.privacy.random_source import InsecureSeededSource

    points = np.random.default_rng(0).normal(size=(300, 2))
    yield BFRSummary(2, 2).update(points).to_bytes()
    yield BFRSummary(2, 2).update(points[:50]).to_bytes()
    for kind in (PrivateKMeans, PrivateBFR):
        model = kind(2, 1.0, bounds=([-3, -3], [3, 3]))
        yield model.fit(points, source=InsecureSeededSource(7)).release_.to_bytes()


def _estimators() -> Iterator[bytes]:
    from sfumato.density import (
        NodeDensity,
        SketchAnomalyDetector,
        SketchClassifier,
        SketchDensity,
        SketchRegressor,
        SketchSampler,
    )
    from sfumato.density.base import noise_from
    from sfumato.privacy.random_source import InsecureSeededSource

    points = np.random.default_rng(0).normal(size=(60, 2))
    labels, target = (points[:, 0] > 0).astype(int), points @ [1.0, -1.0]
    for private in ({}, {"epsilon": 2.0, "bounds": (-3.0, [3.0, 4.0])}):
        small = {"bandwidth": 1.0, "rows": 8, "width": 16, **private}
        aimed = {"target_bounds": (-4.0, 4.0)} if private else {}
        classes = {"classes": [0, 1]} if private else {}
        backends = ("race", "grid", "slices", "fourier")
        with noise_from(InsecureSeededSource(1)):
            for backend in backends:
                yield SketchDensity(**small, backend=backend).fit(points).to_bytes()
            yield SketchSampler(**small).fit(points).to_bytes()
            for method in ("columns", "kernel", *(() if private else ("logistic",))):
                model = SketchClassifier(**small, method=method, **classes)
                yield model.fit(points, labels).to_bytes()
            signs = np.column_stack([points[:, 0], labels])
            listed = SketchClassifier(categorical={1: ["0", "1"]}, **classes, **_ends(private))
            yield listed.fit(signs, labels).to_bytes()
            yield (
                SketchRegressor(**_known(SketchRegressor, small), **aimed)
                .fit(points, target)
                .to_bytes()
            )
            detector = SketchAnomalyDetector(projections=2, bins=4, **private)
            yield detector.fit(points).to_bytes()
            edges = [[1, 2], [2, 3], [3, 1], [4, 1]]
            yield (
                NodeDensity(rows=8, width=16, **({"epsilon": 1.0} if private else {}))
                .fit(edges)
                .to_bytes()
            )


def _samplers() -> Iterator[bytes]:
    """Files of a sampler of tables, which are those of its release."""
    from sfumato.density import PrivateTableSampler
    from sfumato.privacy.random_source import InsecureSeededSource

    points = np.random.default_rng(0).normal(size=(60, 2))
    public = {"x": (-3.0, 3.0), "y": range(-3, 4), "kind": ["a", "b"]}
    for epsilon in (1.0, 200.0):  # without pairs and with them
        table = PrivateTableSampler(public, epsilon=epsilon, bins=8, groups=2, nullable=["y"])
        rows = [[x, y, "ab"[int(x > 0)]] for x, y in points.tolist()]
        yield table.fit(rows, source=InsecureSeededSource(1)).to_bytes()


def _ends(private: dict[str, Any]) -> dict[str, Any]:
    """The same with one pair of bounds for all columns."""
    return {**private, "bounds": (-3.0, 3.0)} if private else {}


def _known(kind: type[Any], given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name in kind().get_params()}


def _models() -> Iterator[bytes]:
    from sfumato.data import Features, Interactions
    from sfumato.privacy.random_source import InsecureSeededSource
    from sfumato.recommend import (
        ALS,
        AttributeMeans,
        BayesianFactorization,
        BellKorBlend,
        ClusterMeans,
        CollectiveItems,
        ContentBased,
        CuratedList,
        DampedMeans,
        DenseFactorization,
        Eigentaste,
        Hybrid,
        ImputedSVD,
        InterpolationWeights,
        ItemNeighbours,
        LinearItems,
        Popular,
        PrivateLinearItems,
        PrivateNeighbours,
        PrivatePopular,
        RatingNeighbours,
        SketchedFactors,
        SketchFactorization,
        TemporalMeans,
        TimeSVDpp,
        UserNeighbours,
    )
    from support.recommender_contract import MODELS, learned

    for makers in MODELS.values():
        for make in makers:
            yield learned(make).to_bytes()
    private_model = learned(MODELS["PrivateFactorization"][-1])
    yield SketchedFactors(cells=64).fit(private_model).to_bytes()
    texts = Interactions(["a", "b", "a"], ["x", "y", "z"], [5.0, 1.0, 3.0])
    yield DenseFactorization(factors=2, epochs=1).fit(texts).to_bytes()
    dated = Interactions(texts.users, texts.items, texts.ratings, [0.0, 86_400.0, 172_800.0])
    yield TimeSVDpp(factors=2, epochs=1).fit(dated).to_bytes()
    for item_model in (
        Popular(),
        CuratedList(items=["x", "y"]),
        DampedMeans(),
        ItemNeighbours(),
        LinearItems(),
        ALS(factors=2),
        BayesianFactorization(factors=2, epochs=2),
        ImputedSVD(factors=2, iterations=1),
        ClusterMeans(clusters=2),
        Eigentaste(gauge=["x", "y"]),
        BellKorBlend(parts="damped-means,rating-neighbours"),
        Hybrid(parts="popular,item-neighbours", combine="mixed"),
        RatingNeighbours(),
        RatingNeighbours(by="users", prediction="average", search="lsh"),
        UserNeighbours(),
        UserNeighbours(predicts="ratings", metric="pearson"),
        DenseFactorization(objective="ranking", factors=2, epochs=1),
        SketchFactorization(objective="ranking", factors=16, cells=64, epochs=1),
    ):
        yield item_model.fit(texts).to_bytes()
    known = Features(["x", "y", "z"], ["tea", "rum", ""], {"kind": ["a", "b", "a"]})
    people = Features(["a", "b", "c"], categories={"age": ["1", "2", "1"]})
    yield ContentBased().fit(texts, features=known).to_bytes()
    yield CollectiveItems().fit(texts, features=known).to_bytes()
    yield AttributeMeans().fit(texts, attributes=people, features=known).to_bytes()
    yield InterpolationWeights(neighbours=2).fit(texts).to_bytes()
    timed = Interactions(texts.users, texts.items, texts.ratings, times=[0, 1e6, 9e6])
    yield TemporalMeans().fit(timed).to_bytes()
    for more in ({}, {"width": 16}):
        neighbours = PrivateNeighbours(epsilon=1.0, per_user=3, **more)
        fitted = neighbours.fit(texts, catalogue=["x", "y", "z"], source=InsecureSeededSource(1))
        yield fitted.release_.to_bytes()
    many = Interactions(np.repeat(np.arange(900), 2), ["x", "y"] * 900, np.ones(1800))
    for private, train in ((PrivatePopular, texts), (PrivateLinearItems, many)):
        lists = private(epsilon=8.0, delta=1e-6)
        lists.fit(train, catalogue=["x", "y", "z"], source=InsecureSeededSource(1))
        yield lists.release_.to_bytes()


def _indexes() -> Iterator[bytes]:
    from sfumato.retrieve import BinaryIndex, LshIndex
    from sfumato.retrieve.encoders.base import CodeEncoder

    vectors = np.random.default_rng(0).normal(size=(24, 6)).astype(np.float32)
    for kind in CodeEncoder._kinds:
        for metric, keep in (("cosine", False), ("inner", True)):
            index = BinaryIndex(8, kind, metric=metric, keep_vectors=keep)
            yield _saved(index.fit(vectors).add(np.arange(24), vectors))
    celled = BinaryIndex(8, metric="inner", partitions=3)
    yield _saved(celled.add(np.arange(24), vectors).remove([3]))
    for metric, width in (("cosine", None), ("inner", None), ("euclidean", 2.0)):
        table = LshIndex(2, 3, metric=metric, width=width)
        yield _saved(table.fit(vectors).add(np.arange(24), vectors))
    names = [f"item {i}" for i in range(24)]
    for encoder in ("learned", "tight_frame"):
        distances = BinaryIndex(8, encoder, metric="euclidean")
        yield _saved(distances.add(names, vectors).remove(names[:1]))
    sets = LshIndex(2, 3, metric="jaccard")
    yield _saved(sets.add(names, [[i, i + 1] for i in range(24)]))


def _saved(index: Any) -> bytes:
    with tempfile.TemporaryDirectory(dir=_folder()) as folder:
        index.save(Path(folder) / "index")
        return (Path(folder) / "index").read_bytes()


def _streams() -> Iterator[bytes]:
    from sfumato.mine.similar import Deduplicator

    texts = ["the cat sat on the mat", "the dog", "", "The cat sat on the mat!"]
    words = dict(unit="words", k=2, stop_words=["the"])
    for memory in (None, 1024):
        stream = Deduplicator(memory=memory, permutations=32, recall=0.9, **words)
        yield stream.partial_fit(texts).to_bytes()


def _schemes() -> dict[str, Any]:
    from sfumato.telemetry import (
        GoogleRappor,
        HadamardResponse,
        LocalHashing,
        Rappor,
        SubsetSelection,
    )

    return {
        "rappor": Rappor(8, 2, 4, f=0.5),
        "published": GoogleRappor(8, 2, 2, f=0.5, p=0.5, q=0.75),
        "local-hashing": LocalHashing(1.0, cohorts=2),
        "subset-selection": SubsetSelection(1.5, categories=["a", "b", "c"]),
        "subset-selection, hashed": SubsetSelection(1.5, cells=12, cohorts=4),
        "hadamard-response": HadamardResponse(1.0, ("a", "b", "c")),
    }


def _telemetry() -> Iterator[tuple[str, bytes]]:
    from sfumato import telemetry
    from sfumato.telemetry.reports.jsonl import to_lines

    for name, scheme in _schemes().items():
        yield "scheme", scheme.to_json().encode()
        reports = telemetry.ReportEncoder(scheme, seed=1).encode_many(["a", "b", "c"])
        counts = telemetry.Counts(scheme).update(reports)
        yield "counts", counts.to_bytes()
        yield "counts", counts.without_ids().to_bytes()
        if name == "rappor":
            yield "reports", to_lines(reports)
        if name != "published":
            continue
        with tempfile.TemporaryDirectory(dir=_folder()) as folder:
            path = Path(folder) / "a.csv"
            for kind, write in (
                ("params.csv", lambda p: telemetry.write_params_csv(p, scheme)),  # noqa: B023
                ("counts.csv", lambda p: telemetry.write_counts_csv(p, counts)),  # noqa: B023
                ("map.csv", lambda p: telemetry.write_map_csv(p, scheme, ["a", "b"])),  # noqa: B023
                ("reports.csv", lambda p: telemetry.write_reports_csv(p, reports)),  # noqa: B023
            ):
                write(path)
                yield kind, path.read_bytes()


def _answers() -> Iterator[tuple[str, bytes]]:
    from sfumato.density.noise_shares import NoiseSharing
    from sfumato.privacy.accounting.losses import (
        Approximate,
        Concentrated,
        Flips,
        GaussianNoise,
        LaplaceNoise,
        Pure,
        Sampled,
    )
    from sfumato.privacy.mechanisms.base import Answer
    from sfumato.privacy.random_source import InsecureSeededSource
    from sfumato.privacy.statement import PrivacyStatement
    from sfumato.sketch import KernelFourier

    for loss in (
        Pure(1.0),
        Approximate(1.0, 1e-6),
        Concentrated(0.01),
        LaplaceNoise("3/2", 1, 4),
        GaussianNoise("900", 1, 4),
        Flips("1/3", 2),
        Sampled(0.25, LaplaceNoise(3, 1, 4)),
        Sampled(0.25, GaussianNoise("900", 1, 4)),
    ):
        delta = 0.0 if loss.epsilon < math.inf else 1e-6
        result = PrivacyStatement(
            unit="event", relation=loss.relation, mechanism="noise", epsilon=4.0, delta=delta,
            loss=loss.to_dict(), covers="the answer",
        )  # fmt: skip
        yield "statement", result.to_json().encode()
        for value in (7, 1.5, np.arange(3), np.array([[1.5, 2.0]]), "tea"):
            yield "answer", Answer(value, result).to_bytes()
    terms = NoiseSharing(parties=3, epsilon=1.0, dropouts=1)
    sketch = KernelFourier(1.0, ([0, 0], [4, 4]), rows=4)
    yield "share", terms.share(sketch, 0, source=InsecureSeededSource(1)).to_bytes()


def import_all() -> None:
    """Import every module of ours but kernels, so that each kind is registered."""
    for module in pkgutil.walk_packages(sfumato.__path__, "sfumato."):
        if not module.name.endswith("__main__") and ".kernels" not in module.name:
            importlib.import_module(module.name)


def written_kinds() -> set[str]:
    """Every kind that a file of ours can name: sketches, models, encoders, families, losses."""
    import_all()
    from sfumato.core.storage import Stored
    from sfumato.density.base import KernelEstimator
    from sfumato.privacy.accounting.losses import Loss
    from sfumato.recommend.base import Estimator
    from sfumato.retrieve.encoders.base import CodeEncoder
    from sfumato.sketch.lsh import Family
    from sfumato.telemetry.schemes.base import Scheme

    tables: list[dict[str, type[Any]]] = [
        *(each.KINDS for each in (Stored, KernelEstimator, Estimator, Family, Loss)),
        CodeEncoder._kinds,
        Scheme.KNOWN,
    ]
    return {
        name
        for table in tables
        for name, kind in table.items()
        if kind.__module__.startswith("sfumato.")
    }


def kinds_in(data: bytes) -> set[str]:
    """The kinds that a file names anywhere, in the files inside of it as well."""
    texts = data.decode("latin-1").split('"')
    return set(texts[1::2]) | set(texts[::2])


def dump(path: Path) -> None:
    """Write all examples where a process that damages them finds them."""
    listed = [[loader, data.decode("latin-1")] for loader, data in examples()]
    path.write_text(json.dumps(listed))
