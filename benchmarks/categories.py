"""Held-out log-loss of a random forest with categories as indicators and as ordinal codes, on files of one's own.

    python -m benchmarks.categories penguins.csv --target island --trees 200

Each fold learns its own encoding (empty cells: indicator). Prints one JSON object; pandas reads the file.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
import pandas as pd

from ml_core.preprocessing.policies import Encoding
from ml_core.preprocessing.table import Column
from ml_core.preprocessing.table_fit import fit_encoder
from ml_core.registry import build
from ml_core.selection.splits import folds

LEAST = 1e-6
"""Probabilities below this count as this."""


def column(values: pd.Series) -> Column:
    """Numbers as they are, everything else as levels."""
    if pd.api.types.is_numeric_dtype(values):
        return Column("number", values.to_numpy(float))
    return Column("category", np.array([None if pd.isna(v) else str(v) for v in values], dtype=object))


def losses(table: dict[str, Column], y: np.ndarray, categorical: str, trees: int) -> list[float]:
    """Mean log-loss of each of two times five folds."""
    out = []
    for seed in (0, 1):
        for train, test in folds(len(y), 5, seed=seed, y=y):
            parts = [{k: Column(c.type, c.values[rows]) for k, c in table.items()} for rows in (train, test)]
            policy = Encoding(missing="indicator", categorical=categorical).held_out()  # type: ignore[arg-type]
            encoder = fit_encoder(parts[0], policy)
            spec = {"algorithm": "random_forest_classifier", "params": {"n_estimators": trees, "min_samples_leaf": 3}}
            model = build(spec, seed=seed).fit(encoder.matrix(parts[0])[0], y[train])
            p = model.predict_proba(encoder.matrix(parts[1])[0])
            own = p[np.arange(len(test)), np.searchsorted(model.classes_, y[test])]
            out.append(float(-np.log(np.maximum(own, LEAST)).mean()))
    return out


def main() -> None:
    """Read the arguments, print the losses and their paired difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--target", required=True)
    parser.add_argument("--exclude", nargs="*", default=[])
    parser.add_argument("--trees", type=int, default=200)
    asked = parser.parse_args()
    frame = (pd.read_parquet if asked.file.endswith("parquet") else pd.read_csv)(asked.file)
    frame = frame[frame[asked.target].notna()]
    y = frame.pop(asked.target).to_numpy()
    y = (y > np.median(y)).astype(int) if len(set(y)) > 20 else y.astype(str)
    table = {str(name): column(values) for name, values in frame.drop(columns=asked.exclude).items()}
    found = {kind: losses(table, y, kind, asked.trees) for kind in ("one_hot", "ordinal")}
    apart = np.subtract(found["one_hot"], found["ordinal"])
    print(json.dumps({
        "file": asked.file.rpartition("/")[2], "target": asked.target, "rows": len(y),
        "levels": {k: len({*c.values} - {None}) for k, c in table.items() if c.type == "category"},
        "log_loss": {k: float(np.mean(v)) for k, v in found.items()},
        "one_hot_minus_ordinal": float(apart.mean()), "standard_error": float(apart.std(ddof=1) / len(apart) ** 0.5),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
