"""A covariance made invertible, or refused as singular with its columns; whatever was done about it is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ml_core.arrays import Matrix
from ml_core.errors import InvalidData, Issue
from ml_core.naming import listed, name
from ml_core.numerics.gaussian import Spectrum, pseudo_whitening, whitening

AUTO_EPS = 1e-6
REMEDY = "collect more rows, drop the dependent columns, or set regularization to epsilon or pseudo_inverse"
ADVICE = "its densities depend on that choice; compare regularizations by validation"
Regularization = Literal["none", "epsilon", "pseudo_inverse"]


@dataclass(frozen=True)
class Precision:
    """A covariance S (d, d) as used, W with S⁻¹ = W Wᵀ and log|W|; rank and condition before `added` was added."""

    covariance: Matrix
    whiten: Matrix
    log_scale: float
    rank: int
    condition: float
    added: float

    @property
    def remark(self) -> str:
        """What was done about a singular covariance."""
        how = f"{self.added:.6g} was added to its diagonal" if self.added else "its pseudo-inverse was used"
        return f"has rank {self.rank} of {len(self.covariance)}; {how}"

    @property
    def singular(self) -> bool:
        """Whether the covariance had no inverse of its own."""
        return self.rank < len(self.covariance)


@dataclass(frozen=True)
class Singularity:
    """What to do about singular covariances: `how`, and `eps` in units²; a trace of 0 is replaced by `spare`."""

    how: Regularization
    eps: float | None
    spare: float

    def precision(self, S: Matrix, whose: str, within: str) -> Precision:
        """Of S (d, d); InvalidData names the dependent columns of a singular covariance that is to stay as it is."""
        d, spectrum = len(S), Spectrum.of(S)
        added = self._added(S, spectrum)
        used = S + added * np.eye(d)
        if self.how == "pseudo_inverse" and spectrum.rank < d:
            W, scale = pseudo_whitening(used, spectrum.rank)
        elif (spectrum if added == 0 else Spectrum.of(used)).rank == d:
            W, scale = whitening(used)
        else:
            columns = spectrum.dependent()
            raise InvalidData(
                f"{whose} is singular: rank {spectrum.rank} of {d}, columns {listed(columns)} are constant or linearly "
                f"dependent {within}; {REMEDY}",
                [Issue(f"/columns/{name(j)}", "singular_covariance", f"dependent {within}") for j in columns],
            )
        return Precision(used, W, scale, spectrum.rank, spectrum.condition, added)

    def _added(self, S: Matrix, spectrum: Spectrum) -> float:
        """What `epsilon` adds to the diagonal."""
        d = len(S)
        if self.how != "epsilon":
            return 0.0
        if self.eps is not None:
            return self.eps
        return 0.0 if spectrum.rank == d else AUTO_EPS * ((float(np.trace(S)) or self.spare) / d or 1.0)
