"""Every file of the corpus is read right, or refused with its reason."""

from __future__ import annotations

import pytest

from service.errors import Invalid, TooLarge
from tests.corpus import cases
from tests.corpus.case import Case
from tests.intake import codes, take

CAP = 64 << 20


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_each_file_is_read_right_or_refused_with_its_reason(case: Case):
    if case.status != 201:
        with pytest.raises(Invalid if case.status == 422 else TooLarge) as refused:
            take(case.content, CAP, **case.options)
        assert case.code in {"", *(issue.code for issue in refused.value.issues)}, refused.value.detail
        assert case.says in refused.value.detail
        return
    reading = take(case.content, CAP, **case.options)
    if case.want is not None:
        assert reading.table.to_pydict() == case.want
        assert [*map(type, reading.table.to_pydict())] == [*map(type, case.want)]
    assert case.types in {None, reading.types}
    assert case.notes <= codes(reading)
