"""What a fit tells beside its answer, and that time ended it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ml_core import progress
from ml_core.certificates import Notice

TIME = "time_budget"
MORE_TIME = "allow more time, or take fewer rows"


def time_notice(
    what: str, cut: Sequence[progress.Tick | None], left: str = "the answer is the best until then"
) -> Notice:
    """That time ended the loops `cut` of the search, or of what else is named."""
    where = f" after {cut[0]}" if cut[0] is not None else ""
    text = (f"the time budget ended the {what}{where}: {left}, which depends on the speed of the machine, so that the "
            "same request may give other bits")  # fmt: skip
    return Notice(TIME, text, MORE_TIME)


class Notes:
    """The notices of a fit."""

    notices_: list[Notice]

    def _note(self, code: str, message: str, advice: str = "") -> None:
        """Record a fact about this fit; it reaches the diagnostics and every stored model."""
        self.notices_.append(Notice(code, message, advice))

    def _note_short(self, message: str, advice: str = "raise max_iter") -> None:
        """Record that a search ended before it met its rule; where time ended it, more time is the advice."""
        self._note("not_converged", message, MORE_TIME if progress.was_cut() else advice)

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        """Around all that learns: tells where the time budget ended a loop."""
        with progress.cut_short() as cut:
            yield
        if cut and not any(n.code == TIME for n in self.notices_):
            self.notices_.append(time_notice("search", cut))
