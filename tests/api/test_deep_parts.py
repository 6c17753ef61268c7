"""Parts nested beyond any use are refused where they stand, by models and by functions."""

from __future__ import annotations

import pytest


def nested(depth):
    spec = {"kernel": "rbf", "length_scale": 1.0}
    for _ in range(depth):
        spec = {"kernel": "scale", "factor": 1.0, "term": spec}
    return spec


def calibrated(depth):
    spec = {"algorithm": "kernel_svm", "params": {}}
    for _ in range(depth):
        spec = {"algorithm": "calibrated", "params": {"estimator": spec}}
    return spec


@pytest.mark.parametrize("depth", [40, 120, 300])
def test_kernels_of_a_function(client, depth):
    body = {"points": [[1.0, 2.0]], "kernel": nested(depth)}
    answer = client.post("/v1/functions/composite_kernel", json=body)
    assert answer.status_code in (400, 422), answer.text
    assert "nested" in answer.text


@pytest.mark.parametrize("depth", [40, 120, 300])
@pytest.mark.parametrize("make", [lambda d: {"algorithm": "kernel_svm", "params": {"kernel": nested(d)}}, calibrated])
def test_parts_of_a_model(client, depth, make):
    body = {"estimator": make(depth), "dataset": "penguins", "target": "species", "encoding": {"missing": "drop_rows"}}
    answer = client.post("/v1/models", json=body)
    assert answer.status_code in (400, 422), answer.text
    assert "nested" in answer.text
