"""GET /overview: what the service has to show, by name, and how large and old its model is."""

import math
import time
from typing import Any

import sfumato
from sfumato.serve.endpoint import Call, Endpoint
from sfumato.serve.page.messages import DensityRow, MetricRow, ModelRow, Overview

__all__ = ["ENDPOINTS"]

PLANE = 2  # columns of a density that is drawn as a map


async def get_overview(call: Call) -> Overview:
    """List metrics and densities of the settings, and describe the served model."""
    service = call.service
    page = service.config.page
    return Overview(
        sfumato.__version__,
        page.generated,
        page.examples,
        _model(service.feed.current),
        [_metric(name, call) for name in service.config.metrics],
        [
            _density(name, model)
            for name, model in service.densities.items()
            if model.n_features_in_ == PLANE
        ],
    )


def _model(served: Any) -> ModelRow | None:
    model = served.model
    if model is None:
        return None
    age = max(0.0, time.time() - served.learned)
    items = len(model.catalogue_.ids)
    return ModelRow(int(model.nbytes), items, int(model.factors), served.position, age)


def _metric(name: str, call: Call) -> MetricRow:
    scheme = call.service.schemes[name]
    one = getattr(scheme, "epsilon_one", math.inf)
    return MetricRow(
        name,
        scheme.epsilon_permanent,
        float(one) if math.isfinite(one) else None,
        scheme.to_json(),
        call.service.config.metrics[name].public_key,
    )


def _density(name: str, model: Any) -> DensityRow:
    low, high = ([float(each) for each in side] for side in model.bounds_)
    return DensityRow(name, low, high, model.statement_.headline)


ENDPOINTS = [Endpoint("GET", "/overview", get_overview, "read", Overview)]
