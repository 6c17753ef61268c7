"""Rows of the preprocessing family."""

from sklearn.preprocessing import StandardScaler

from tests.rows import Row, data

ROWS = [
    Row(
        "standard_scaler",
        {},
        data.regression,
        oracle=StandardScaler(),
        same=("mean_", "scale_", "transform"),
        tol=1e-13,
        chunk_digits=13,
    ),
]
