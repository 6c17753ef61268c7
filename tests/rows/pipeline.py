"""The row of pipelines."""

import sklearn.linear_model
import sklearn.pipeline
import sklearn.preprocessing

from ml_core.linear.linear_regression import LinearRegression
from ml_core.preprocessing.standard_scaler import StandardScaler
from tests.rows import Row, data

ROWS = [
    Row(
        "pipeline",
        {"steps": [StandardScaler(), LinearRegression()]},
        data.regression,
        oracle=sklearn.pipeline.make_pipeline(
            sklearn.preprocessing.StandardScaler(), sklearn.linear_model.LinearRegression()
        ),
        same=("predict",),
        tol=1e-12,
        chunk_digits=12,
        sklearn_params={"steps": [StandardScaler(), LinearRegression()]},
    ),
]
