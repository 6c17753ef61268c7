"""Rows of the Bayesian counts."""

from tests.rows import Row, data

ROWS = [
    Row(
        "beta_bernoulli",
        {"a": 2.0, "b": 2.0},
        data.flips,
        no_oracle="scikit-learn has no beta-Bernoulli model; closed forms in test_beta_bernoulli.py",
        sklearn_params={"binarize": 0.0},
        chunk_digits=15,
    ),
]
