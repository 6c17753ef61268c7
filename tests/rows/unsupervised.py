"""Rows of k-means and principal components, with and without a kernel."""

from sklearn.decomposition import PCA

from tests.rows import Row, data

ROWS = [
    Row(
        "kernel_k_means", {"n_clusters": 3, "kernel": {"kernel": "rbf", "length_scale": 2.0}}, data.blobs,
        no_oracle="scikit-learn has none; tests/test_kernel_k_means.py compares with k-means and every partition",
        sklearn_params={"n_init": 60},  # repeated rows and weights must reach the same optimum
    ),
    Row(
        "kernel_pca", {"n_components": 3, "kernel": {"kernel": "rbf", "length_scale": 2.0}},
        lambda: (data.regression()[0], None),
        no_oracle="signs differ between libraries; tests/test_kernel_pca.py compares magnitudes with scikit-learn",
    ),
    Row(
        "k_means", {"n_clusters": 3}, data.blobs,
        no_oracle="cluster numbers differ between libraries; tests/test_k_means.py compares up to their order",
        chunk_digits=12,
    ),
    Row(
        "principal_component_analysis", {"n_components": 3}, lambda: (data.regression()[0], None), oracle=PCA(3),
        same=("mean_", "explained_variance_ratio_", "singular_values_"), tol=1e-12,
        chunk_digits=12,
        sklearn_params={"n_components": None},
    ),
]  # fmt: skip
