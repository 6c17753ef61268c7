"""Rows of the ensemble family."""

from tests.rows import Row, data

ROWS = [
    Row(
        "random_forest_classifier",
        {"n_estimators": 20},
        data.classification,
        no_oracle="random: tests/test_random_forest.py compares held-out quality, test_tree_kernels.py the trees",
        sklearn_params={"n_estimators": 10},
        expected={
            "check_sample_weight_equivalence_on_dense_data": "a weight multiplies how often its row "
            "was drawn, while each copy of a repeated row is drawn on its own: two random forests that differ in bits",
        },
    ),
]
