"""Row of the wrapper that makes probabilities."""

from tests.rows import Row, data

BASE = {"algorithm": "kernel_svm", "params": {"kernel": {"kernel": "rbf", "length_scale": 2.0}}}

ROWS = [
    Row("calibrated", {"estimator": BASE}, data.binary,
        no_oracle="folds differ from any peer's; maps are tested against closed forms and scikit-learn's",
        expected={"check_sample_weight_equivalence_on_dense_data": "a repeated row may lie on both sides of a fold"}),
]  # fmt: skip
