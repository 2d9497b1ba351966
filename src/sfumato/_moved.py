"""Import paths of earlier versions: each old module is an alias of its successor.

A finder at the end of `sys.meta_path` is called only for modules that Python itself does not find,
so the aliases cost nothing until one is imported, which warns once. Version 1.0 removes them.
"""

from __future__ import annotations

import importlib
import sys
import types
import warnings
from importlib.machinery import ModuleSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["MOVED", "RENAMED", "install"]

MOVED = {
    f"sfumato.{old}": f"sfumato.{new}"
    for old, new in (
        line.split()
        for line in """
attack.audit attack.mechanism_audit.audit
attack.eigen attack.decoders.map_eigen
attack.information attack.leakage.mechanism
attack.joint attack.decoders.joint
attack.maximum attack.decoders.map_eigen
attack.model_report attack.membership.model_audit
attack.one_run attack.mechanism_audit.lower_bounds
attack.popularity attack.decoders.single
attack.profile_report attack.profile_audit.audit
attack.reconstruction attack.profile_audit.evaluation
attack.single attack.decoders.single
attack.taste attack.decoders.taste_prior
data.batches data.readers.batches
data.means recommend.bias
data.ratings data.readers.ratings
data.world data.synthetic
density.classifier density.classify.classifier
density.density density.kde
density.masks density.pairwise_masks
density.parties density.combined
density.regressor density.regress.regressor
density.sampler density.kde
density.shares density.noise_shares
hashing core.hashing
privacy.accountant privacy.accounting.accountant
privacy.additive privacy.mechanisms.additive
privacy.answer privacy.mechanisms.base
privacy.bounding privacy.mechanisms.contribution_bounding
privacy.calibrate privacy.accounting.calibration
privacy.conjugate privacy.mechanisms.posterior_sampling
privacy.continual privacy.mechanisms.binary_tree
privacy.fixed_point privacy.mechanisms.fixed_point
privacy.loss privacy.accounting.losses
privacy.mechanism privacy.mechanisms.base
privacy.noise_law privacy.noise.distribution
privacy.pan_private privacy.mechanisms.pan_private
privacy.posterior privacy.mechanisms.posterior_sampling
privacy.response privacy.mechanisms.randomized_response
privacy.sample_and_aggregate privacy.mechanisms.sample_and_aggregate
privacy.selection privacy.mechanisms.selection
privacy.shares privacy.noise.discrete
privacy.smooth privacy.mechanisms.smooth_sensitivity
profile.minima profile.min_hash
profile.occupancy profile.bloom_occupancy
profile.released_blip profile.blip
profile.released_jlt profile.jlt
profile.released_minima profile.min_hash
profile.released_signs profile.signs
recommend.dense recommend.factorization.dense
recommend.private_neighbours recommend.private.neighbours
recommend.released_neighbours recommend.private.released_neighbours
recommend.sketched recommend.factorization.sketched
recommend.sketched_factors recommend.factorization.compressed
recommend.tune recommend.tuning
retrieve.amplify retrieve.lsh.amplification
retrieve.codes retrieve.encoders.factories
retrieve.index retrieve.binary.index
retrieve.tables retrieve.lsh.index
sketch.ams sketch.frequency.ams
sketch.cosine sketch.similarity.cosine
sketch.count_min sketch.frequency.count_min
sketch.count_sketch sketch.frequency.count_sketch
sketch.counting_bloom sketch.bloom_variants
sketch.feature_hasher sketch.projection.feature_hasher
sketch.johnson_lindenstrauss sketch.projection.johnson_lindenstrauss
sketch.kernel_fourier sketch.kernel_sums.fourier
sketch.kernel_grid sketch.kernel_sums.grid
sketch.kernel_slices sketch.kernel_sums.slices
sketch.lsh.composed sketch.lsh.combinators
sketch.lsh.learned sketch.lsh.metric_learning
sketch.lsh.sums sketch.lsh.combinators
sketch.min_hash sketch.similarity.min_hash
sketch.moments sketch.kernel_sums.moments
sketch.p_stable sketch.similarity.p_stable
sketch.race sketch.kernel_sums.race
sketch.released_ams sketch.frequency.ams
sketch.released_bloom sketch.bloom
sketch.released_cosine sketch.similarity.cosine
sketch.released_count_min sketch.frequency.count_min
sketch.released_count_sketch sketch.frequency.count_sketch
sketch.released_hyper_log_log sketch.hyper_log_log
sketch.released_kernel_fourier sketch.kernel_sums.fourier
sketch.released_kernel_grid sketch.kernel_sums.grid
sketch.released_kernel_slices sketch.kernel_sums.slices
sketch.released_min_hash sketch.similarity.released_min_hash
sketch.released_moments sketch.kernel_sums.moments
sketch.released_race sketch.kernel_sums.race
sketch.scalable_bloom sketch.bloom_variants
sketch.tensor sketch.projection.tensor_sketch
telemetry.aggregate telemetry.reports.counts
telemetry.bound telemetry.decoding.fisher_information
telemetry.decode telemetry.decoding.decode
telemetry.encode telemetry.encoder
telemetry.hadamard_response telemetry.schemes.hadamard_response
telemetry.joint telemetry.decoding.association
telemetry.likelihood telemetry.decoding.likelihood
telemetry.local_hashing telemetry.schemes.local_hashing
telemetry.params telemetry.schemes.rappor
telemetry.plan telemetry.planning
telemetry.prefixes telemetry.discovery.prefixes
telemetry.published telemetry.schemes.google_rappor
telemetry.published_files telemetry.reports.google_csv
telemetry.published_reports telemetry.reports.google_csv
telemetry.subset_selection telemetry.schemes.subset_selection
""".strip().splitlines()
    )
}

# Renamed names that were public in an old module but not in its package. A package has its own
# table `_RENAMED`.
RENAMED = {
    "sfumato.privacy.pan_private.NoisyCells": "PanPrivateTable",
    "sfumato.privacy.posterior.Model": "PosteriorModel",
    "sfumato.retrieve.codes.Options": "EncoderOptions",
    "sfumato.sketch.released_cosine.plan": "calibrated",
    "sfumato.sketch.released_cosine.rows_terms": "rows_request",
    "sfumato.sketch.released_min_hash.plan": "calibrated",
    "sfumato.telemetry.likelihood.Fit": "LikelihoodFit",
}


class _Alias(types.ModuleType):
    """An old module, which looks all names up in its successor.

    Importing it binds its name in the package. If a function of that name is there, such as
    `sfumato.attack.audit`, a call is passed on to the function.
    """

    def __getattr__(self, name: str) -> Any:
        module = importlib.import_module(MOVED[self.__name__])
        room = importlib.import_module(self.__name__.rpartition(".")[0])
        old = f"{self.__name__}.{name}"
        new = RENAMED.get(old) or getattr(room, "_RENAMED", {}).get(name)
        if new is None or hasattr(module, name):
            return getattr(module, name)
        warnings.warn(
            f"{old} is now called {new}; the old name goes with version 1.0.",
            DeprecationWarning,
            stacklevel=2,
        )
        return getattr(module, new)

    def __dir__(self) -> list[str]:
        return dir(importlib.import_module(MOVED[self.__name__]))

    def __call__(self, *args: Any, **options: Any) -> Any:
        return getattr(self, self.__name__.rpartition(".")[2])(*args, **options)


class _Finder:
    """Finds and loads aliases; not derived from importlib.abc, which triples the import time."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name in MOVED else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return _Alias(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        name, new = module.__name__, MOVED[module.__name__]
        importlib.import_module(new)
        warnings.warn(
            f"{name} has moved to {new}; names of a room are best imported from the room itself.",
            DeprecationWarning,
            stacklevel=2,
        )


def install() -> None:
    """Install the finder of old modules, once."""
    if not any(isinstance(each, _Finder) for each in sys.meta_path):
        sys.meta_path.append(_Finder())
