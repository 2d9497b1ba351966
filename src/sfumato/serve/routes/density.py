"""POST /density/{name}/query: densities at points, from a private release."""

from typing import Any

import msgspec
import numpy as np

from sfumato.density.serialization import load
from sfumato.errors import ParameterError
from sfumato.serve.config import DensityConfig
from sfumato.serve.endpoint import Call, Endpoint
from sfumato.serve.protection.problems import Problem, not_found
from sfumato.serve.routes.messages import DensityAnswer, DensityQuery

__all__ = ["ENDPOINTS", "densities"]

_read = msgspec.json.Decoder(DensityQuery).decode


def densities(settings: dict[str, DensityConfig]) -> dict[str, Any]:
    """Load the estimators of all names; one that is not private is refused."""
    found = {}
    for name, each in settings.items():
        model = load(each.file)
        if not hasattr(model, "density") or not hasattr(model, "statement_"):
            raise ParameterError.of(
                "ServiceConfig",
                f"densities.{name}.file",
                "must be of a SketchDensity that was fitted with an epsilon: queries leave.",
            )
        found[name] = model
    return found


async def query_density(call: Call) -> DensityAnswer:
    """Return the density at each point; any number of queries costs nothing more."""
    name, query = call.path("name"), _read(call.body)
    model = call.service.densities.get(name)
    if model is None:
        raise not_found("density", field="name")
    limit, columns = call.service.config.largest_batch, model.n_features_in_
    if len(query.points) > limit:
        raise Problem(413, f"There must be at most {limit} points.", kind="batch-too-large")
    for position, point in enumerate(query.points):
        if len(point) != columns:
            raise Problem(
                422, f"A point must have {columns} numbers.", field="points", position=position
            )
    found = model.density(np.array(query.points))
    return DensityAnswer(found.tolist(), model.statement_.headline)


ENDPOINTS = [
    Endpoint(
        "POST",
        "/density/{name}/query",
        query_density,
        "read",
        DensityAnswer,
        body=DensityQuery,
        statuses=(404,),
    )
]
