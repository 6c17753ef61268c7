"""A data folder written by the first release is opened by this one: same numbers, and the queued job runs.

`tests/data/data_folder_0001.tar.gz` was written by commit b44fd2f: the sample iris, a logistic regression, a forest of
five trees, one fit left in the queue, and in `expected.json` what it answered then.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import numpy as np

from service.container import build
from service.ports import Report
from service.settings import Settings
from service.work import run
from tests.contract.test_migrations import OLD


def test_an_old_data_folder_is_read_and_its_work_goes_on(tmp_path: Path) -> None:
    with tarfile.open(OLD) as archive:
        archive.extractall(tmp_path, filter="data")
    expected = json.loads((tmp_path / "expected.json").read_text())
    settings = Settings(data=tmp_path)
    use = build(settings)
    for name, then in expected["models"].items():
        for key in (then["id"], name):
            now = use.inference.predict(key, {"dataset": expected["dataset"]})
            assert list(now["predictions"]) == then["predictions"]["predictions"]
            was = then["predictions"]["probabilities"]
            assert list(now["probabilities"]["classes"]) == was["classes"]
            np.testing.assert_allclose(now["probabilities"]["values"], was["values"], rtol=1e-12, atol=1e-15)
        assert use.ledger.get(then["job"]).state == "succeeded"
    (claim,) = use.ledger.claim("A", {"instant": 1, "long": 1})
    assert (claim.job.id, claim.job.resource) == (expected["queued"]["job"], expected["queued"]["id"])
    assert use.ledger.finish(claim, "succeeded", result=run(settings, claim.job, Report(lambda _: None, 1)))
    again = use.inference.predict("waiting", {"dataset": expected["dataset"]})
    assert list(again["predictions"]) == expected["models"]["logistic"]["predictions"]["predictions"]
    assert [key["name"] for key in use.keys.page()] == ["old"]
    use.db.close()
