"""Multinomial logistic regression under its own name."""

from __future__ import annotations

from ml_core.linear.logistic_regression import LogisticRegression
from ml_core.registry import algorithm


@algorithm("softmax_regression")
class SoftmaxRegression(LogisticRegression):
    """Class probabilities by the softmax of linear scores: `logistic_regression`, which takes any number of classes.

    min over W, b of  Σᵢ sᵢ (log Σₖ exp ηᵢₖ - ηᵢ,yᵢ) + ½ alpha ‖W‖², ηᵢ = W xᵢ + b. Adding one vector to all rows of W
    changes nothing, so `full` keeps their sum at 0 and `reference` keeps class 0 at 0: equal probabilities when
    alpha = 0. For two classes one score remains, the log-odds of the second.

    References
    ----------
    McCullagh, Nelder (1989), Generalized Linear Models, chapter 5.
    Bishop (2006), Pattern Recognition and Machine Learning, section 4.3.4.
    """
