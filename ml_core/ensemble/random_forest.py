"""Random forests."""

from __future__ import annotations

import zlib
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.base import Classifier, Cost
from ml_core.capabilities import HasProba, Weighted
from ml_core.certificates import Diagnostics
from ml_core.ensemble.forest import Resampling, grow_trees, out_of_bag, resampling
from ml_core.ensemble.forest_report import report
from ml_core.errors import InvalidParameter, Issue
from ml_core.params import Seed
from ml_core.registry import algorithm
from ml_core.tree.codes import Coded, encode
from ml_core.tree.predict import frozen, mean_of_trees
from ml_core.tree.splits import BINS, COSTS, Rules
from ml_core.tree.structure import join, sizes, used_features

EXACT_ROWS = 4096
DEEP = 1000
UNLIMITED = np.iinfo(np.int64).max
Criterion = Annotated[Literal["gini", "entropy", "misclassification"], Field(description="Cost of a node.")]
MaxFeatures = Annotated[
    Literal["sqrt", "log2", "all"] | Annotated[int, Field(ge=1)] | Annotated[float, Field(gt=0, le=1)],
    Field(description="Features drawn afresh at each node: floor(√d), floor(log2 d), all, a number or a share of d."),
]
MaxSamples = Annotated[
    Annotated[int, Field(ge=1)] | Annotated[float, Field(gt=0, le=1)] | None,
    Field(description="Draws per resample, a number or a share of the rows; none is as many as rows."),
]
Splits = Annotated[
    Literal["auto", "exact", "histogram"],
    Field(description="Thresholds tried: every midpoint (exact), or in nodes of more than 64 rows the edges of at most "
          "256 equal ranges of the node's ranks (histogram); auto is exact up to 4096 rows."),
]  # fmt: skip


class ForestParts:
    """What forests of classifiers and regressors share: sizes of the draws and what is kept of the grown trees."""

    max_features: str | int | float
    max_samples: int | float | None
    bootstrap: bool
    n_estimators: int
    random_state: int
    splits: str
    nodes_: np.ndarray
    roots_: np.ndarray
    values_: Matrix

    def _draws(self, n: int) -> int:
        """Draws per tree; 0 is all rows as they are."""
        if not self.bootstrap:
            if self.max_samples is not None:
                _refuse("max_samples", "max_samples needs bootstrap=true; without it every tree has all rows")
            return 0
        if isinstance(self.max_samples, float):
            return max(1, round(self.max_samples * n))
        return n if self.max_samples is None else self.max_samples

    def _mtry(self, d: int) -> int:
        """Features per node."""
        if isinstance(self.max_features, str):
            return {"sqrt": int(np.sqrt(d)), "log2": max(1, int(np.log2(d))), "all": d}[self.max_features]
        if isinstance(self.max_features, float):
            return max(1, int(self.max_features * d))
        if self.max_features > d:
            _refuse("max_features", f"max_features is {self.max_features}, but there are {d} features")
        return self.max_features

    def _plan(self, n: int) -> Resampling:
        return resampling(self.random_state, self.n_estimators, n, self._draws(n))

    def _exact(self, coded: Coded) -> bool:
        """Whether every threshold is tried in every node."""
        few = coded.ranks.shape[1] <= EXACT_ROWS or int(coded.distinct.max()) <= BINS
        return self.splits == "exact" or (self.splits == "auto" and few)


def _refuse(name: str, why: str) -> None:
    raise InvalidParameter(why, [Issue(f"/params/{name}", "value_error", why)])


@algorithm("random_forest_classifier")
class RandomForestClassifier(ForestParts, Weighted, HasProba, Classifier):
    """Bagged deep trees that see a fresh random subset of the features at every node.

    P(k | x) = (1/T) Σₜ pₜ(k | leaf of x), or the share of the T trees whose leaf has class k in front (vote). Each
    tree is grown on n' rows drawn with replacement; each node draws m features (more while all drawn are constant) and
    takes the split x_j ≤ t with the largest decrease of the cost: gini 1 - Σ p², entropy -Σ p log2 p,
    misclassification 1 - max p; ties go to the lowest feature, then the lowest threshold. A node that is not pure
    splits even for a decrease of zero. Thresholds are midpoints of neighbouring values. min_samples_* count distinct
    rows of the resample; a weight multiplies how often its row was drawn. O(T n m log n) on average to fit,
    O(T log n) per row to predict. Categories come as encoded: measured, one_hot is better or equal for few levels,
    ordinal was for a category of 12, whose indicators crowd the other features out of the draws.

    References
    ----------
    Breiman (2001), Random forests, Machine Learning 45.
    Hastie, Tibshirani, Friedman (2009), The Elements of Statistical Learning, chapter 15.
    """

    complexity = "O(T n m log n)"
    tags = ("non_parametric", "discriminative", "high_capacity", "ensemble")
    queue = "long"
    example_params: ClassVar[dict[str, Any]] = {"n_estimators": 20}

    nodes_: Annotated[np.ndarray, "(N,) feature, left child (the right one follows it) or value, threshold; all trees"]
    roots_: Annotated[np.ndarray, "(T,) first node of each tree"]
    values_: Annotated[Matrix, "(V, K) class probabilities of leaves; the first K rows are the pure ones"]
    feature_importances_: Annotated[Vector, "(d,) mean share of the decrease of the cost, sums to 1"]
    used_features_: Annotated[np.ndarray, "(d,) number of nodes that ask each feature"]
    depth_: Annotated[np.ndarray, "(T,) depth of each tree"]
    leaves_: Annotated[np.ndarray, "(T,) leaves of each tree"]
    max_features_: int
    scheme_: Annotated[str, "exact or histogram"]
    oob_error_: Annotated[float | None, "weighted share of the covered rows that their unseen trees get wrong"]
    oob_coverage_: Annotated[float | None, "weighted share of rows that some tree did not see"]
    oob_decision_function_: Annotated[Matrix | None, "(n, K) out-of-bag probabilities, NaN for rows every tree saw"]
    oob_curve_: Annotated[Vector | None, "(T,) out-of-bag error of the first 1 … T trees"]
    coverage_curve_: Annotated[Vector | None, "(T,) coverage of the first 1 … T trees"]
    training_digest_: int

    def __init__(
        self,
        *,
        n_estimators: Annotated[int, Field(ge=1, le=1_000_000, description="Number of trees T.")] = 100,
        criterion: Criterion = "gini",
        max_features: MaxFeatures = "sqrt",
        max_depth: Annotated[int | None, Field(ge=1, description="Most questions on a path; none is no limit.")] = None,
        min_samples_split: Annotated[int, Field(ge=2, description="Fewest rows a node needs to split.")] = 2,
        min_samples_leaf: Annotated[int, Field(ge=1, description="Fewest rows of a child.")] = 1,
        min_gain: Annotated[float, Field(ge=0, description="Least decrease of the cost within a node.")] = 0.0,
        purity: Annotated[float, Field(gt=0, le=1, description="A class share that makes a leaf.")] = 1.0,
        bootstrap: Annotated[bool, Field(description="Draw rows with replacement; else all rows.")] = True,
        max_samples: MaxSamples = None,
        aggregation: Annotated[
            Literal["mean_posterior", "vote"], Field(description="Average probabilities, or count trees.")
        ] = "mean_posterior",
        oob_score: Annotated[bool, Field(description="Keep out-of-bag probabilities and error.")] = True,
        splits: Splits = "auto",
        random_state: Seed = 0,
    ) -> None:
        self.n_estimators = n_estimators
        self.criterion = criterion
        self.max_features = max_features
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.min_gain = min_gain
        self.purity = purity
        self.bootstrap = bootstrap
        self.max_samples = max_samples
        self.aggregation = aggregation
        self.oob_score = oob_score
        self.splits = splits
        self.random_state = random_state

    def _fit(self, X: Matrix, y: Codes, s: Vector) -> None:
        plan, self.max_features_ = self._plan(len(X)), self._mtry(X.shape[1])
        coded = encode(X)
        exact, K = self._exact(coded), len(self.classes_)
        self.scheme_ = "exact" if exact else "histogram"
        rules = Rules(COSTS[self.criterion], self.max_features_, self.min_gain, self.purity, self.min_samples_split,
                      self.min_samples_leaf, self.max_depth or UNLIMITED, exact)  # fmt: skip
        trees, self.feature_importances_ = grow_trees(
            coded, y.astype(np.int32), s, K, rules, plan, self.aggregation == "vote"
        )
        self.nodes_, self.roots_, self.values_ = map(frozen, join(trees, K))
        size = sizes(self.nodes_, self.roots_)
        self.depth_, self.leaves_ = size["depth"], size["leaves"]
        self.used_features_ = used_features(self.nodes_, X.shape[1])
        self.training_digest_ = _digest(X, y, s)
        self._keep_out_of_bag(X, y, s, plan)
        self._comment()

    def _keep_out_of_bag(self, X: Matrix, y: Codes, s: Vector, plan: Resampling) -> None:
        self.oob_error_ = self.oob_coverage_ = self.oob_decision_function_ = None
        self.oob_curve_ = self.coverage_curve_ = None
        if not (self.oob_score and self.bootstrap):
            return
        oob = out_of_bag((self.nodes_, self.roots_, self.values_), X, y, s, plan)
        self.oob_decision_function_, self.oob_curve_, self.coverage_curve_ = oob.proba, oob.error, oob.coverage
        self.oob_error_, self.oob_coverage_ = float(oob.error[-1]), float(oob.coverage[-1])
        if not oob.seen.all():
            lost = int((oob.seen == 0).sum())
            self._note("oob_uncovered", f"{lost} of {len(X)} rows were drawn by every tree and have no out-of-bag "
                       "prediction; the error is over the others", "grow more trees")  # fmt: skip

    def _comment(self) -> None:
        if self.criterion == "misclassification":
            self._note("poor_cost", "misclassification often ties between unequal splits", "prefer gini or entropy")
        if self.depth_.max() > DEEP:
            self._note("deep_tree", f"a tree is {int(self.depth_.max())} questions deep; the labels look like noise",
                       "set max_depth or min_samples_leaf")  # fmt: skip

    def _proba(self, X: Matrix) -> Matrix:
        return mean_of_trees(self.nodes_, self.roots_, self.values_, X)

    def _diagnose(self, X: Matrix, y: Codes, s: Vector) -> Diagnostics:
        known = _digest(X, y, s) == self.training_digest_
        again = None
        if known and self.oob_error_ is not None:
            again = out_of_bag((self.nodes_, self.roots_, self.values_), X, y, s, self._plan(len(X)))
        return report(self, X, y, s, again)

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """m features of n rows on each of about 1.5 log2 n levels of T trees; memory for the nodes and the ranks."""
        log_n = float(np.log2(max(n, 2)))
        nodes = 16.0 * 1.3 * n * self.n_estimators
        flops = 10.0 * 1.5 * self.n_estimators * n * self._mtry(d) * log_n + 10.0 * n * d * log_n
        return Cost(flops=flops, memory_bytes=nodes + 4.0 * n * d + 16.0 * n * d + 200.0 * n + 8.0 * n * k)


def _digest(X: Matrix, y: Codes, s: Vector) -> int:
    """Checksum that recognises the training rows."""
    return zlib.crc32(s.tobytes(), zlib.crc32(y.tobytes(), zlib.crc32(np.ascontiguousarray(X).data)))
