"""What a Dask worker is before it takes tasks: `dask worker … --preload service.dask_worker`.

It reads the same `POSTFIT_…` variables as a runner, for the tables and arrays that tasks refer to are in its stores;
the database it does not need.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from threadpoolctl import threadpool_limits

from ml_core.numerics.jit import warm_up
from service.adapters.spread_payload import Bench
from service.container import build_worker
from service.settings import Settings

log = logging.getLogger("distributed.postfit")


def dask_setup(worker: Any) -> None:
    """Open the stores, load the kernels, and leave one thread to linear algebra, as in every worker of ours.

    Dask would start a worker whose preload failed; ours ends, and its nanny tries again.
    """
    try:
        threadpool_limits(1)
        Bench.objects = build_worker(Settings.from_env(os.environ))
        warm_up()
    except Exception:
        log.exception("this worker cannot work and ends")
        os._exit(70)
