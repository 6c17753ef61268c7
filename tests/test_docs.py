"""The documents are true: commands, settings, error types and algorithms they name exist; examples run."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np

from ml_core.registry import algorithms, functions
from service.api.problems import TABLE, kind_of
from service.errors import ServiceError
from service.settings import Settings

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


def test_curl_walk_through_runs(client):
    port = client.base_url.port
    script = blocks(README, "bash")[0].replace("127.0.0.1:8000", f"127.0.0.1:{port}")
    commands = [c for c in re.split(r"\n(?=#|curl)", script) if c.startswith("curl")]
    assert len(commands) == 5
    answers = []
    for command in commands:
        out = subprocess.run(shlex.split(command), capture_output=True, text=True, check=True, cwd=ROOT, timeout=120)
        answers.append(json.loads(out.stdout))
    table, model, posterior, diagnostics, catalogue = answers
    assert table["rows"] == 442
    assert model["state"] == "ready"
    assert posterior["distributions"][0]["family"] in ("normal", "student_t")
    assert all(c["holds"] for c in diagnostics["certificates"])
    assert len(catalogue["items"]) == len(algorithms())


def test_readme_commands_exist():
    for name in re.findall(r"`python -m service (\w+)", README):
        command = [sys.executable, "-m", "service", name, "--help"]
        out = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        assert out.returncode == 0, out.stderr
    first, second = [b.strip() for b in blocks(README, "")[:2]]
    assert "\n" not in first
    assert "\n" not in second
    assert " -m pytest" in second


def test_every_setting_is_documented():
    for name in Settings.model_fields:
        assert f"POSTFIT_{name.upper()}" in ARCHITECTURE, name


def test_every_algorithm_and_function_is_in_the_changelog():
    text = (ROOT / "CHANGELOG.md").read_text()
    for name in (*algorithms(), *functions()):
        assert f"`{name}`" in text, name


def test_every_service_error_has_a_problem_of_its_own():
    def below(cls: type) -> list[type]:
        return [cls, *(d for c in cls.__subclasses__() for d in below(c))]

    for cls in below(ServiceError):
        assert cls in TABLE
        assert kind_of(cls("x"))[0] is cls


def test_add_an_algorithm_example_fits_and_certifies(tmp_path):
    source = blocks((ROOT / "docs" / "add-an-algorithm.md").read_text(), "python")[0]
    (tmp_path / "constant_regression.py").write_text(source)
    code = f"""
import sys, json, numpy as np, ml_core.linear
ml_core.linear.__path__.append({str(tmp_path)!r})
from ml_core.registry import build, algorithms
from service.api.spec_schemas import spec_schemas
assert "constant_regression" in algorithms()
assert "ConstantRegressionSpec" in spec_schemas()
e = build({{"algorithm": "constant_regression", "params": {{"shrink": 1.0}}}})
X, y = np.zeros((3, 1)), np.array([1.0, 2.0, 6.0])
e.fit(X, y)
print(json.dumps([e.predict(X[:1]).tolist(), e.diagnostics(X, y).to_json()["certificates"][0]["holds"]]))
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert out.returncode == 0, out.stderr
    value, holds = json.loads(out.stdout)
    np.testing.assert_allclose(value, [9 / 4])
    assert holds


def test_pins_name_packages_and_nothing_else():
    lines = (ROOT / "constraints.txt").read_text().split()
    assert lines
    assert all(re.fullmatch(r"[\w.-]+==[\w.!+-]+", line) for line in lines)
