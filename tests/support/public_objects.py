"""An object of every public class, most of them from what other tests build.

A public class joins by one line below, unless another list has it: sketches, releases, mechanisms,
models, files. `tests/integration/test_reprs.py` finds those that are missing.
"""

import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

SECRET = "Sekret"  # in every id, value and row below: no line may show it
SEED = 987654321  # of noise and masks: nor this, nor the key
KEY = b"\x07" * 31 + b"k"


@cache
def public_objects() -> list[Any]:
    """The objects, several of some classes."""
    return [*_stored(), *_listed(), *_made()]


def _stored() -> Iterator[Any]:
    from support import stored_files as files

    made = [
        *(("sketch", data) for data in files._profiles()),
        *(("sketch", data) for data in files._mined()),
        *(("density", data) for data in (*files._estimators(), *files._samplers())),
        *(("index", data) for data in files._indexes()),
        *files._telemetry(),
        *files._answers(),
    ]
    for loader, data in made:
        if loader != "reports":
            yield files.LOADERS[loader][0](data)


def _listed() -> Iterator[Any]:
    from support.mechanism_contract import MECHANISMS
    from support.recommender_contract import MODELS
    from support.release_cases import RELEASES
    from support.sketch_contract import SKETCHES, feed

    for cases in MECHANISMS.values():
        yield from (case.mechanism for case in cases)
    yield from (case.mechanism.model for case in MECHANISMS["PosteriorSample"])
    yield from (cases[-1].release() for cases in RELEASES.values())
    for makers in MODELS.values():
        yield from (make() for make in makers)
    for factories in SKETCHES.values():
        yield from (feed(make(1), slice(0, 50)) for make in factories[:2])


def _made() -> Iterator[Any]:
    yield from _data()
    yield from _engines()
    yield from _privacy()
    yield from _stores()
    yield from _served()
    yield from _telemetry()
    yield from _retrieval()
    yield from _recommending()
    yield from _density()
    yield from _attacks()
    yield from _mining()
    yield from _similar()
    yield from _components()
    yield from _clusters()
    yield from _graph_measures()
    yield from _ranking()


def _served() -> Iterator[Any]:
    from sfumato import AsyncClient, Client
    from sfumato.serve import ServiceConfig

    yield ServiceConfig(database=f"postgresql://ann:{SECRET}@host/shop")
    yield Client("http://127.0.0.1:8000", key=SECRET)
    yield AsyncClient("http://127.0.0.1:8000", key=SECRET)


def ratings() -> Any:
    """Ratings whose users and items tell a secret."""
    from sfumato.data import Interactions

    draws = np.random.default_rng(0)
    users = [f"{SECRET} user {n}" for n in draws.integers(60, size=900)]
    items = [f"{SECRET} item {n}" for n in draws.integers(20, size=900)]
    return Interactions(users, items, draws.integers(1, 6, 900).astype(float))


def _engines() -> Iterator[Any]:
    from sfumato.engine import LocalEngine, SparkEngine
    from sfumato.engine.spark import StreamSketch
    from sfumato.sketch import HyperLogLog

    yield LocalEngine(threads=2)
    context = SimpleNamespace(master="local[2]")
    engine = SparkEngine(SimpleNamespace(sparkContext=context))
    with tempfile.TemporaryDirectory() as folder:
        stream = StreamSketch(engine, HyperLogLog, folder)
        yield from (engine, stream)


def _data() -> Iterator[Any]:
    from sfumato.core.hashing import KeyColumn, hashed_keys
    from sfumato.data import generate_world, read_batches

    given = ratings()
    yield from (given, given.coded(), given.outside())
    yield from (KeyColumn([SECRET]), hashed_keys([SECRET], 0))
    yield generate_world(users=20, items=10, ratings=100, random_state=1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv"
        path.write_text(f"user,item\n{SECRET},tea\n")
        batches = read_batches(path, ["user", "item"])
        yield from (batches, batches.reading, *batches.pieces)


def _privacy() -> Iterator[Any]:
    from fractions import Fraction

    from sfumato.privacy import Accountant, Ledger, Privacy
    from sfumato.privacy import accounting as losses
    from sfumato.privacy.mechanisms import ContributionBound, ContributionSample, FixedPoint
    from sfumato.privacy.mechanisms.posterior_sampling import DirichletMultinomial, GaussianMean
    from sfumato.privacy.noise import InsecureSeededSource, ShareSource

    yield Accountant().compose(0.5).compose(0.25, count=2)
    noise = losses.LaplaceNoise(Fraction(5, 2)), losses.GaussianNoise(Fraction(9))
    yield from (*noise, losses.Flips(Fraction(1, 4)), losses.Concentrated(0.5))
    yield from (losses.Pure(0.5), losses.Approximate(0.5, 1e-6), losses.Sampled(0.1, noise[0]))
    yield Privacy(1.0, 1e-6, ledger="shop.ledger", dataset="ratings")
    yield from (InsecureSeededSource(SEED), ShareSource(3, InsecureSeededSource(SEED)))
    yield ContributionBound(per_user=2)
    yield ContributionSample(per_user=2, seed=1).update([SECRET, "b"], [1, 2])
    yield from (FixedPoint(low=0, high=1, step=1 / 8), DirichletMultinomial(3, 4))
    yield GaussianMean(0.0, 1.0, 1.0, 5, 0.5, 1.0)
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "shop.ledger")
        ledger.create("ratings", epsilon=2.0)
        ledger.charge("ratings", 0.5, what="counts")
        yield from (ledger, *ledger.datasets(), *ledger.history("ratings"))
        yield from (ledger.spent("ratings"), ledger.verify())


def _stores() -> Iterator[Any]:
    from sfumato.store import EventBatch, open_store

    with tempfile.TemporaryDirectory() as folder, open_store(f"{folder}/shop.db") as store:
        batch = EventBatch([f"{SECRET} 1"], [f"{SECRET} item"])
        yield from (store, batch, store.append(batch))
        yield from (store.save_snapshot("model", b"", 1), store.release("r", "a sum", str.encode))
        yield store.create_key("front", ["ingest"])[0]
        erasure = store.erase_user(f"{SECRET} 1")
        yield from (erasure, erasure.record, store.info())


def _telemetry() -> Iterator[Any]:
    from sfumato import telemetry
    from support.stored_files import _schemes

    values = [f"{SECRET} a", f"{SECRET} b"] * 400
    yield from _schemes().values()
    scheme = telemetry.Rappor(32, 2, 4, f=0.5)
    yield telemetry.SubsetSelection(2.0, categories=[f"page {n}" for n in range(500)])
    reports = telemetry.ReportEncoder(scheme, seed=1).encode_many(values)
    counts = telemetry.Counts(scheme).update(reports)
    yield from (telemetry.ReportEncoder(scheme, secret=KEY), reports, counts, counts.dispersion())
    yield telemetry.decode(counts, values[:2])
    first, second = (
        telemetry.ReportEncoder(
            telemetry.SubsetSelection(3.0, ["x", "y"], metric=name), seed=1
        ).encode_many(["x", "y"] * 400)
        for name in ("a", "b")
    )
    yield telemetry.associate(first, second, ["x", "y"], ["x", "y"])
    plan = telemetry.plan(10_000, 2.0, 20)
    yield from (plan, plan.recommended)
    search = telemetry.PrefixDiscovery(epsilon=4, length=4, alphabet="abcdef")
    sent = search.encode_many(["cafe", "face", "cafe"] * 500, seed=1)
    yield from (search, sent, search.find(sent))


def _mining() -> Iterator[Any]:
    from sfumato.mine.itemsets import (
        Baskets,
        PrivateItemsets,
        association_rules,
        frequent_itemsets,
    )

    baskets = Baskets([[f"{SECRET} tea", "milk"], [f"{SECRET} tea", "milk", "rum"]])
    found = frequent_itemsets(baskets, 1)
    yield from (baskets, next(baskets.read()), found, association_rules(found))
    yield PrivateItemsets(1.0, max_items=3, vocabulary=[f"{SECRET} tea"])


def _clusters() -> Iterator[Any]:
    from sfumato.mine.cluster import CURE, Hierarchical

    texts = [f"{SECRET} {n}" for n in range(9)]
    yield Hierarchical(3, metric="edit", linkage="average").fit(texts)
    yield CURE(2, random_state=1).fit_source({"x": np.arange(9.0)}, ["x"])
    from sfumato.mine import cluster

    points = np.random.default_rng(0).normal(size=(60, 2))
    yield from (cluster.KMeans(2, random_state=0).fit(points), cluster.BFR(2).fit(points))
    yield from (cluster.BFRSummary(2, 2).update(points), cluster.choose_k(points, range(1, 4)))
    yield cluster.PrivateKMeans(2, 1.0, bounds=([-1, -1], [1, 1]))
    yield cluster.PrivateBFR(2, 1.0, bounds=([-1, -1], [1, 1]))


def _retrieval() -> Iterator[Any]:
    from sfumato.retrieve import BinaryIndex, Buckets, LshIndex, Sensitive, qolsh

    vectors = np.random.default_rng(0).normal(size=(24, 6)).astype(np.float32)
    index = BinaryIndex(8).fit(vectors).add(np.arange(24), vectors)
    yield from (index, LshIndex(2, 3).fit(vectors).add(np.arange(24), vectors))
    yield from (Buckets(2).add([[7, 1], [8, 1]]), Sensitive(0.2, 0.9, 0.8, 0.1))
    encoder = qolsh(8).fit(vectors)
    yield from (encoder, encoder.encode(vectors))


def _recommending() -> Iterator[Any]:
    from sfumato.data import Features
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
        ItemIndex,
        ItemNeighbours,
        LangevinFactorization,
        LinearItems,
        PersonalNeighbours,
        Popular,
        PrivateFactorization,
        PrivateLinearItems,
        PrivateNeighbours,
        PrivatePopular,
        RatingNeighbours,
        RawProfiles,
        SketchedFactors,
        SVDpp,
        TemporalMeans,
        TfIdf,
        TimeSVDpp,
        UserNeighbours,
    )
    from sfumato.recommend.comparison import compare
    from sfumato.recommend.tuning import TrialLog, tune
    from support.recommender_contract import TRAIN

    given = ratings()
    yield from (DampedMeans().fit(given), RawProfiles(given))
    films = Features(sorted(set(given.items)), categories={"genre": list("abcd") * 5})
    people = Features(sorted(set(given.users)), categories={"age": [SECRET] * 60})
    content = ContentBased().fit(given, features=films)
    yield from (films, films.categories["genre"], content, content.index(), TfIdf().fit(films))
    yield CollectiveItems().fit(given, features=films)
    yield BayesianFactorization(factors=2, epochs=2, burn_in=1).fit(given)
    yield from (BellKorBlend(), Hybrid(parts="popular,item-neighbours"), LangevinFactorization())
    yield AttributeMeans().fit(given, attributes=people, features=films)
    yield from (InterpolationWeights(neighbours=3).fit(given), TemporalMeans())
    for private in (
        PrivateNeighbours(epsilon=1.0, per_user=3),
        PrivatePopular(epsilon=1.0, delta=1e-6),
        PrivateLinearItems(epsilon=1.0, delta=1e-6),
    ):
        yield from (private, private.fit(given, catalogue=sorted(set(given.items))).release_)
    yield UserNeighbours().fit(RawProfiles(given))
    means = PrivateFactorization(epsilon=8.0, delta=1e-6, bounds=(1, 5), rows=64)
    means.fit(given, catalogue=sorted(set(given.items)))
    yield PersonalNeighbours(means, private.release_)
    model = DenseFactorization(factors=2, epochs=1).fit(given)
    yield from (kind().fit(given) for kind in (ALS, ItemNeighbours, LinearItems, Popular))
    yield CuratedList(items=given.items[:2].tolist()).fit(given)
    yield RatingNeighbours().fit(given)
    yield from (model, model.catalogue_, ItemIndex(model, bits=8))
    yield SVDpp(factors=2, epochs=1).fit(given)
    yield from (ClusterMeans().fit(given), Eigentaste(gauge=2).fit(given))
    yield ImputedSVD(factors=2, iterations=1).fit(given)
    yield TimeSVDpp(factors=2, epochs=1)
    yield SketchedFactors(cells=64)
    found = tune(DenseFactorization(factors=2, epochs=1), TRAIN, TRAIN, fine=0)
    yield from (found, *found.trials[:1])
    compared = compare([Popular(), ItemNeighbours()], TRAIN)
    result = compared.results["Popular"]
    yield from (compared, compared.protocol, result, result.metrics["ndcg@10"])
    yield compared.difference("Popular", "ItemNeighbours", "ndcg@10")
    with tempfile.TemporaryDirectory() as folder:
        yield TrialLog(Path(folder) / "trials.jsonl", {"model": "a"})


def _density() -> Iterator[Any]:
    from sfumato.density import KernelFeatures, MaskingParty, NoiseSharing, PairwiseMasks, combine
    from sfumato.density.pairwise_masks import SecretShares
    from sfumato.sketch import KernelFourier, Merging

    made = [KernelFourier(1.0, (0, 9)).update([[1.0]]).release(epsilon=0.5) for _ in range(2)]
    yield from (combine(made), NoiseSharing(parties=3, epsilon=1.0), Merging("exact"))
    yield from (MaskingParty(0, 3, 2), PairwiseMasks(3, threshold=2))
    yield from _families()
    yield SecretShares((0, 1), {0: SEED, 1: SEED}, {2: SEED})
    yield KernelFeatures(rows=8).fit(np.random.default_rng(0).normal(size=(9, 2)))


def _families() -> Iterator[Any]:
    from sfumato.profile import Jlt, Minima, Signs
    from sfumato.sketch.lsh import (
        Angular,
        Euclidean,
        Jaccard,
        MixtureKernel,
        PowerKernel,
        ProductKernel,
        WeightedSum,
    )

    near, turned = Euclidean(1.0, ([-3] * 99, [3] * 99)), Angular(2, 99)
    yield from (
        near,
        turned,
        ProductKernel(near, turned),
        MixtureKernel(near, turned),
        PowerKernel(turned, 2),
    )
    yield from (WeightedSum([(0.5, near), (0.5, turned)]), Jaccard())
    yield from (Jlt(epsilon=1.0), Signs(epsilon=1.0), Minima(epsilon=1.0))


def _attacks() -> Iterator[Any]:
    from sfumato import attack
    from sfumato.privacy.mechanisms import Laplace
    from sfumato.privacy.random_source import InsecureSeededSource
    from sfumato.profile import Blip
    from sfumato.recommend import DenseFactorization

    given = ratings()
    source = InsecureSeededSource(1)
    yield attack.audit(Laplace(1, 1.0), (0, 1), 2000, source=source)
    yield attack.epsilon_lower_bound(731, 1000, 269, 1000)
    yield from (attack.gaussian_fit(731, 1000, 269, 1000), attack.information(Laplace(1, 1).loss()))
    train, test = given.split(0.5, 0.5, random_state=1)
    found = attack.audit_model(DenseFactorization(factors=2, epochs=2).fit(train), train, test)
    yield from (found, found.divergence, found.membership, *found.membership.attacks.values())
    profiles = Blip(bits=64, hashes=2, epsilon=2.0)
    audit = attack.audit_profiles(given, profiles, epsilons=[2.0], sample=10, max_recovery=0.9)
    yield from (profiles, audit, audit.choice)
    released = profiles.release(given, users=sorted(set(given.users)), source=source)
    items = sorted(set(given.items))
    truth = attack.truth_matrix(given, released.users_, items)
    prior = attack.item_prior(given, items)
    scores = attack.single_decoder(released, items, prior)
    yield from (truth, attack.size_prior(given), attack.learn_prior(given, items, rounds=1))
    yield attack.reconstruction(scores, truth, truth.sizes)
    yield attack.measured_information(1 / (1 + np.exp(-scores)), truth, prior)
    yield attack.neighbour_recall(released, given, 3)
    yield from _channels()


def _channels() -> Iterator[Any]:
    from sfumato.attack import BitChannel, SignChannel, SymbolChannel, VectorChannel

    yield BitChannel(np.eye(2, 4, dtype=bool), [[0, 0], [1, 2]], 0.1)
    yield VectorChannel([[1.0, 1.0, 0.0]], np.eye(3), 0.1)
    yield SignChannel([[True, True, False]], np.eye(3), 0.5)
    yield SymbolChannel([[1, 2]], [0, 0, 1], [5, 7, 1], [1, 0, 1], 0.1, empty=2)


def _similar() -> Iterator[Any]:
    from sfumato.mine.similar import Deduplicator, choose_bands, shingles

    yield from (choose_bands(0.8), shingles([SECRET]))
    yield from (Deduplicator().partial_fit([SECRET]), Deduplicator(memory=64, seed=1))


def _components() -> Iterator[Any]:
    from sfumato.mine.decompose import PCA, PrivatePCA

    table = np.random.default_rng(0).normal(size=(50, 3))
    yield from (PCA(), PCA(2).fit(table))
    yield PrivatePCA(2, epsilon=1.0, bounds=(-3, 3)).fit(table)


def _graph_measures() -> Iterator[Any]:
    from sfumato.mine import rank

    pages = [f"{SECRET} {n}" for n in range(6)]
    graph = rank.Graph(pages, pages[1:] + pages[:1])
    star = rank.Graph(pages[:1] * 5, pages[1:])
    yield from (rank.simrank(star, pages[1]), rank.link_farm(3, 10))
    yield from (rank.spam_mass(graph, pages[:2]), rank.count_triangles(graph))
    yield rank.neighbourhood_function(graph, method="hyperloglog", precision=4)
    yield rank.PrivateDegreeHistogram(1.0, max_degree=3, nodes=pages)


def _ranking() -> Iterator[Any]:
    from sfumato.mine.rank import Graph, TextIndex, pagerank, pagerank_on_disk

    graph = Graph([f"{SECRET} a", f"{SECRET} b"], [f"{SECRET} b", f"{SECRET} c"])
    disk = pagerank_on_disk(graph)
    yield from (graph, pagerank(graph), disk, disk.cost, disk._graph)
    yield TextIndex([f"{SECRET} a"], [SECRET])
