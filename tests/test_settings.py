"""Mistakes in the configuration: one line that names the variable and what to write instead, and no secret in it."""

from __future__ import annotations

import builtins
import sys
from pathlib import Path

import pytest

from service.__main__ import _parser, main
from service.adapters.database import connect
from service.errors import ServiceError

WRONG = {
    "POSTFIT_PORTT": ("1", "Extra inputs"),
    "POSTFIT_PORT": ("99999", "less than or equal to 65535"),
    "POSTFIT_SECRET": ("0badsecret", "pattern"),
    "POSTFIT_OBJECTS": ("file:///tmp/x", "s3://"),
    "POSTFIT_RUNNER": ("both", "'embedded' or 'none'"),
}


@pytest.mark.parametrize("command", ["serve", "runner", "migrate", "doctor"])
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_variable_is_named_in_one_line(
    name: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    value, why = WRONG[name]
    monkeypatch.setenv(name, value)
    assert main(["--data", str(tmp_path / "data"), command]) in (1, 2)
    said = "".join(capfd.readouterr())
    assert f"{name}: " in said
    assert why in said
    assert "Traceback" not in said
    assert "0badsecret" not in said
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    "url",
    ["nonsense-pa55word", "postgres://u:pa55word@h/x", "mysql://u:pa55word@h/x", "postgresql+psycopg2://u:pa55word@h/x",
     "postgresql+asyncpg://u:pa55word@h/x", "sqlite+aiosqlite:///pa55word", "postgresql+psycopg://u:pa55word@h:port/x"],
)  # fmt: skip
@pytest.mark.parametrize("command", ["serve", "runner", "migrate", "doctor", "backup"])
def test_a_database_that_the_service_does_not_speak_to_is_refused_with_the_way_to_write_it(
    command: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POSTFIT_DATABASE", url)
    target = [str(tmp_path / "x.tar")] if command == "backup" else []
    assert main(["--data", str(tmp_path / "data"), command, *target]) in (1, 2)
    said = "".join(capfd.readouterr())
    assert "POSTFIT_DATABASE" in said
    assert "postgresql+psycopg://" in said
    assert "Traceback" not in said
    assert "pa55word" not in said


def test_without_its_driver_postgresql_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def absent(name: str, *rest: object, **more: object) -> object:
        if name == "psycopg":
            raise ModuleNotFoundError("No module named 'psycopg'", name="psycopg")
        return real(name, *rest, **more)  # type: ignore[arg-type]

    for name in [name for name in sys.modules if name.partition(".")[0] == "psycopg"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(ServiceError, match=r"postfit\[postgres\]"):
        connect("postgresql+psycopg://h/x")


@pytest.mark.parametrize("command", ["serve", "runner", "quickstart"])
@pytest.mark.parametrize("folder", ["file", "file/below", "/proc/below"])
def test_a_data_folder_that_cannot_be_used_is_named(
    folder: str, command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["--data", str(tmp_path / folder), command]) == 2
    said = capfd.readouterr().err
    assert str(tmp_path / folder) in said
    assert "POSTFIT_DATA" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("command", ["serve", "runner", "migrate", "backup", "doctor"])
def test_a_damaged_database_says_so_and_what_to_do(
    command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "service.db").write_bytes(b"no database " * 1000)
    target = [str(tmp_path / "x.tar")] if command == "backup" else []
    assert main(["--data", str(tmp_path), command, *target]) in (1, 2)
    said = "".join(capfd.readouterr())
    assert "restore a backup" in said
    assert "Traceback" not in said
    assert (tmp_path / "service.db").read_bytes() == b"no database " * 1000


@pytest.mark.parametrize("words", [["serve"], ["quickstart"], ["runner"], ["migrate"], ["doctor"], ["backup", "f"]])
def test_the_data_folder_is_named_before_or_behind_the_command(words: list[str]) -> None:
    folder = ["--data", "somewhere"]
    assert vars(_parser().parse_args([*folder, *words])) == vars(_parser().parse_args([*words, *folder]))
    assert _parser().parse_args([*words, *folder]).data == Path("somewhere")
    assert _parser().parse_args(words).data is None
