"""Rows of the Bayesian counts and of naive Bayes."""

from sklearn.naive_bayes import BernoulliNB, GaussianNB, MultinomialNB

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
    Row(
        "gaussian_naive_bayes",
        {},
        data.classification,
        oracle=GaussianNB(var_smoothing=0.0),
        same=("predict_proba", "predict_log_proba", "predict"),
        tol=1e-11,
        sklearn_params={"smoothing": 1e-9},
        chunk_digits=12,
    ),
    Row(
        "bernoulli_naive_bayes",
        {"alpha": 0.5},
        data.labelled_flips,
        oracle=BernoulliNB(alpha=0.5),
        same=("predict_proba", "predict_log_proba", "predict"),
        tol=1e-12,
        sklearn_params={"binarize": 0.0},
        chunk_digits=14,
    ),
    Row(
        "multinomial_naive_bayes",
        {"alpha": 0.5},
        data.counts,
        oracle=MultinomialNB(alpha=0.5),
        same=("predict_proba", "predict_log_proba", "predict"),
        tol=1e-12,
        chunk_digits=14,
        expected={
            "check_classifiers_train": "blobs are no counts: a class is a direction in this model, not a place",
            "check_decision_proba_consistency": "the check's rows are negative, whatever the tags say",
        },
    ),
]
