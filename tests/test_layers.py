"""The arrows of import, no cycles, and the size budgets."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = sorted([*(ROOT / "ml_core").rglob("*.py"), *(ROOT / "service").rglob("*.py")])
NUMERIC = {"numpy", "scipy", "numba", "pydantic"}
FORBIDDEN = {
    "ml_core": {"service", "fastapi", "starlette", "httpx", "sqlalchemy", "pyarrow", "joblib", "sklearn"},
    "service/ports.py": {"service.adapters", "service.api", "service.usecases", "service.runner", "fastapi", "ml_core"},
    "service/spread_port.py": {"service.adapters", "service.api", "service.usecases", "service.runner", "fastapi"},
    "service/dataset_port.py": {"service.adapters", "service.api", "service.usecases", "service.runner", "ml_core"},
    "service/usecases": {"service.api", "service.adapters", "service.container", "service.runner", "fastapi",
                         "starlette", "sqlalchemy"},
    "service/adapters": {"service.api", "service.usecases", "service.container", "fastapi", "starlette"},
    "service/intake": {"service.api", "service.usecases", "service.adapters", "service.container", "fastapi"},
    "service/runner": {"service.api", "service.usecases", "fastapi", "starlette"},
    "service/api": {"service.adapters", "sqlalchemy"},
}  # fmt: skip
DEEP = {"service/work.py", "service/container.py", "service/__main__.py"}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports(path: Path, *, top_only: bool = False) -> set[str]:
    tree = ast.parse(path.read_text())
    nodes = tree.body if top_only else list(ast.walk(tree))
    out = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            out |= {a.name for a in node.names}
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in {name_of(path)}"
            out |= {node.module} | {f"{node.module}.{a.name}" for a in node.names}
    return out


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_arrows(path):
    name, found = name_of(path), imports(path)
    for where, banned in FORBIDDEN.items():
        if not name.startswith(where) or name in DEEP or name == "ml_core/compat/sklearn.py":
            continue
        bad = {m for m in found if any(m == b or m.startswith(b + ".") for b in banned)}
        assert not bad, f"{name} imports {bad}"
    if name.startswith("ml_core") and name != "ml_core/compat/sklearn.py":
        foreign = (
            {m.partition(".")[0] for m in found} - NUMERIC - set(sys.stdlib_module_names) - {"ml_core", "__future__"}
        )
        assert not foreign, f"{name} imports {foreign}"


def test_no_cycles():
    graph = {}
    for path in FILES:
        module = name_of(path).removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        graph[module] = imports(path, top_only=True)
    graph = {m: {i for i in found if i in graph and i != m} for m, found in graph.items()}
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " → ".join([*trail, module])
        if module not in done:
            for inner in graph[module]:
                visit(inner, (*trail, module))
            done.add(module)

    for module in graph:
        visit(module, ())
    assert done == set(graph)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_budgets(path):
    text = path.read_text()
    assert text.count("\n") <= 300, f"{name_of(path)} has {text.count(chr(10))} lines"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            length = (node.end_lineno or 0) - body[0].lineno + 1 if body else 0
            compiled = any("compiled" in ast.unparse(d) or "inner" in ast.unparse(d) for d in node.decorator_list)
            assert length <= (60 if compiled else 40), f"{name_of(path)}:{node.lineno} {node.name} has {length} lines"
        if isinstance(node, ast.ClassDef):
            public = [
                n for n in node.body if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)) and n.name[0] != "_"
            ]
            properties = [n for n in public if any("property" in ast.unparse(d) for d in n.decorator_list)]
            methods = len(public) - len(properties)
            assert methods <= 12 or node.name in PORTS, f"{node.name} has {methods} public methods"


PORTS = {"Ledger", "DatasetService", "Inference"}  # one method per question of the contract


def test_import_is_quiet_and_needs_no_peer():
    peers = ("sklearn", "pandas", "fastapi", "joblib", "pyarrow", "sqlalchemy")
    code = ("import sys, ml_core.registry as r; r.algorithms(); r.functions(); "
            f"print(sorted(m for m in {peers!r} if m in sys.modules))")  # fmt: skip
    out = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert out.stdout.strip() == "[]"
    assert out.stderr == ""
