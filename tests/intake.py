"""Reads bytes as an upload would be read; shared by the tests of the intake."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from service.errors import Invalid
from service.intake.findings import ReadOptions
from service.intake.read import read

SAMPLES = Path(__file__).parent.parent / "service" / "samples"
CAP = 1 << 28


def take(content, cap=CAP, **options):
    """The reading of these bytes; what is mapped stays readable after its folder is gone."""
    with TemporaryDirectory() as folder:
        path, scratch = Path(folder) / "upload", Path(folder) / "scratch"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        scratch.mkdir()
        return read(path, ReadOptions(**options), scratch, cap)


def kinds(reading):
    """Type by column."""
    return dict(zip(reading.table.column_names, reading.types, strict=True))


def codes(reading):
    """Codes of the warnings."""
    return {note["code"] for note in reading.warnings}


def refusal(content, **options):
    """The error with which these bytes are refused."""
    with pytest.raises(Invalid) as caught:
        take(content, **options)
    assert caught.value.detail
    return caught.value
