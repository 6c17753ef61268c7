"""Held-out log-loss of a random forest whose splits choose a side for empty cells, against filled cells.

    python -m benchmarks.missing hitters.csv --target League --exclude NewLeague
    python -m benchmarks.missing breast_cancer.parquet --target diagnosis --remove 0.2 --how high

The forest is scikit-learn's for all of `native` (it learns a side for empty cells at each split), `mean`, `median` and
`indicator`, so that nothing but the empty cells differs; `ours` is `random_forest_classifier` with `indicator`.
Categories are indicators. `--remove` empties a share of the numbers: any, or (`high`) only those above the median of
their column. Each of two times five folds learns its own filling. Prints one JSON object; pandas reads the file.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer

from ml_core.registry import build
from ml_core.selection.splits import folds

LEAST = 1e-6
"""Probabilities below this count as this."""
FILLS = ("native", "mean", "median", "indicator", "ours")


def matrix(frame: pd.DataFrame) -> np.ndarray:
    """(n, d): numbers as they are, NaN where empty; categories as indicators, one of them for empty cells."""
    words = [name for name in frame if not pd.api.types.is_numeric_dtype(frame[name])]
    return pd.get_dummies(frame, columns=words, dummy_na=True, dtype=float).to_numpy(float)


def emptied(X: np.ndarray, share: float, how: str, rng: np.random.Generator) -> np.ndarray:
    """A copy without a share of the cells of columns with more than two values."""
    out = X.copy()
    for j in range(X.shape[1]):
        if len(np.unique(X[~np.isnan(X[:, j]), j])) > 2:
            able = np.ones(len(X), bool) if how == "any" else X[:, j] > np.nanmedian(X[:, j])
            out[able & (rng.random(len(X)) < share * len(X) / able.sum()), j] = np.nan
    return out


def loss(fill: str, X: np.ndarray, y: np.ndarray, parts: tuple[np.ndarray, np.ndarray], seed: int, trees: int) -> float:
    """Mean log-loss of the held-out rows."""
    train, test = X[parts[0]], X[parts[1]]
    if fill != "native":
        how = "median" if fill == "median" else "mean"
        filled = SimpleImputer(strategy=how, add_indicator=fill in {"indicator", "ours"}, keep_empty_features=True)
        train, test = filled.fit_transform(train), filled.transform(test)
    if fill == "ours":
        params = {"n_estimators": trees, "min_samples_leaf": 3}
        model = build({"algorithm": "random_forest_classifier", "params": params}, seed=seed)
    else:
        model = RandomForestClassifier(trees, min_samples_leaf=3, random_state=seed, n_jobs=1)
    model.fit(train, y[parts[0]])
    p = model.predict_proba(test)
    own = p[np.arange(len(test)), np.searchsorted(model.classes_, y[parts[1]])]
    return float(-np.log(np.maximum(own, LEAST)).mean())


def main() -> None:
    """Read the arguments, print the losses and their paired differences from `native`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--target", required=True)
    parser.add_argument("--exclude", nargs="*", default=[])
    parser.add_argument("--remove", type=float, default=0.0)
    parser.add_argument("--how", choices=("any", "high"), default="any")
    parser.add_argument("--trees", type=int, default=200)
    asked = parser.parse_args()
    frame = (pd.read_parquet if asked.file.endswith("parquet") else pd.read_csv)(asked.file)
    frame = frame[frame[asked.target].notna()]
    y = frame.pop(asked.target).to_numpy()
    y = (y > np.median(y)).astype(int) if len(set(y)) > 20 else y.astype(str)
    X = matrix(frame.drop(columns=asked.exclude))
    X = emptied(X, asked.remove, asked.how, np.random.default_rng(0)) if asked.remove else X
    found: dict[str, list[float]] = {fill: [] for fill in FILLS}
    for seed in (0, 1):
        for parts in folds(len(y), 5, seed=seed, y=y):
            for fill in FILLS:
                found[fill].append(loss(fill, X, y, parts, seed, asked.trees))
    apart = {fill: np.subtract(found[fill], found["native"]) for fill in FILLS[1:]}
    print(json.dumps({
        "file": asked.file.rpartition("/")[2], "target": asked.target, "rows": len(y), "columns": X.shape[1],
        "empty_share": float(np.isnan(X).mean()),
        "log_loss": {k: round(float(np.mean(v)), 4) for k, v in found.items()},
        "minus_native": {k: [round(float(d.mean()), 4), round(float(d.std(ddof=1) / len(d) ** 0.5), 4)]
                         for k, d in apart.items()},
    }))  # fmt: skip


if __name__ == "__main__":
    main()
