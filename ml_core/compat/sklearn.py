"""What scikit-learn asks of an estimator; imported only when scikit-learn asks, never a dependency."""

from __future__ import annotations

from typing import Any

from sklearn.utils import ClassifierTags, InputTags, RegressorTags, Tags, TargetTags, TransformerTags


def tags(estimator: Any) -> Tags:
    """scikit-learn's tags, read off the contract."""
    kind = getattr(estimator, "_estimator_type", None)
    return Tags(
        estimator_type=kind,
        target_tags=TargetTags(required=estimator.supervised, multi_output=getattr(estimator, "multi_output", False)),
        transformer_tags=TransformerTags() if hasattr(estimator, "transform") else None,
        classifier_tags=ClassifierTags() if kind == "classifier" else None,
        regressor_tags=RegressorTags() if kind == "regressor" else None,
        input_tags=InputTags(positive_only=estimator.accepts in ("count", "nonnegative"), sparse=estimator.sparse),
    )
