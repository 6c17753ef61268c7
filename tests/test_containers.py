"""The container's files: what they promise is checked as text, what they run is run in a virtual environment."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from service.api.app import create_app
from service.api.server import drain_seconds
from service.container import Services
from service.settings import PREFIX, Settings
from tests.faults.bench import eventually
from tests.faults.service import environ, free_port

ROOT = Path(__file__).parents[1]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["postfit"]
BUILD_SECONDS = 900.0
ROOT_ONLY = ("apt-get ", "useradd ")  # need a container: packages of the distribution, a user
FOLDERS = ("venv", "app", "data", "cache")


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile as (instruction, rest), continued lines joined."""
    text = re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines]


STEPS = instructions()
LAST_STAGE = STEPS[max(i for i, (name, _) in enumerate(STEPS) if name == "FROM") :]


def rest(name: str, steps: list[tuple[str, str]] = LAST_STAGE) -> list[str]:
    return [text for step, text in steps if step == name]


def variables(steps: list[tuple[str, str]] = LAST_STAGE) -> dict[str, str]:
    words = [word for text in rest("ENV", steps) for word in shlex.split(text)]
    return dict(word.split("=", 1) for word in words)


def health() -> list[str]:
    """The command of HEALTHCHECK."""
    (text,) = rest("HEALTHCHECK")
    return json.loads(text[text.index("CMD ") + 4 :])


def test_the_image_is_built_in_two_stages_from_named_versions() -> None:
    bases = [text.split()[0] for text in rest("FROM", STEPS)]
    assert len(bases) == 2
    assert len(set(bases)) == 1, "compiled packages move between equal systems only"
    for base in bases:
        name, _, tag = base.partition(":")
        assert name == "python"
        assert re.match(r"3\.\d+-slim$", tag), base


def test_the_process_is_not_root_and_owns_the_folders_it_writes() -> None:
    (user,) = rest("USER")
    assert user not in ("root", "0")
    made = "\n".join(rest("RUN"))
    assert re.search(rf"useradd .*\b{user}\b", made)
    owned = re.search(rf"install -d -o {user} ([^&\n]+)", made)
    assert owned is not None
    values = variables()
    assert set(owned.group(1).split()) == {values["POSTFIT_DATA"], values["NUMBA_CACHE_DIR"]}
    assert [name for name, _ in LAST_STAGE].index("USER") < [name for name, _ in LAST_STAGE].index("ENTRYPOINT")


def test_what_is_copied_exists_is_not_ignored_and_is_all_that_is_built() -> None:
    copied = [source for text in rest("COPY", STEPS) if "--from" not in text for source in text.split()[:-1]]
    ignored = (ROOT / ".dockerignore").read_text().split()
    for source in copied:
        assert (ROOT / source).exists(), source
        assert source not in ignored, source
    assert {"pyproject.toml", "constraints.txt", "README.md", "ml_core", "service"} <= set(copied)


def test_settings_are_known_and_the_health_check_asks_a_route_that_exists(services: Services) -> None:
    values = variables()
    Settings.from_env({name: value for name, value in values.items() if name.startswith(PREFIX)})
    path = re.search(r"/v1/[a-z/]+", health()[-1])
    assert path is not None
    assert path.group() in create_app(services).openapi()["paths"]
    assert rest("EXPOSE") == [values["POSTFIT_PORT"]]
    assert json.loads(rest("VOLUME")[0]) == [values["POSTFIT_DATA"]]


def test_compose_runs_it_locked_down_with_every_written_folder_mounted() -> None:
    values = {**variables(), **COMPOSE["environment"]}
    assert COMPOSE["init"] is True
    assert COMPOSE["read_only"] is True
    assert COMPOSE["cap_drop"] == ["ALL"]
    assert COMPOSE["security_opt"] == ["no-new-privileges:true"]
    mounts = [volume.split(":")[1] for volume in COMPOSE["volumes"]] + COMPOSE["tmpfs"]
    assert sorted(mounts) == sorted([values["POSTFIT_DATA"], values["NUMBA_CACHE_DIR"], "/tmp"])
    named = {volume.split(":")[0] for volume in COMPOSE["volumes"]}
    assert named <= set(yaml.safe_load((ROOT / "docker-compose.yml").read_text())["volumes"])
    for port in COMPOSE["ports"]:
        assert port.startswith("127.0.0.1:"), "reachable from this machine only unless somebody decides otherwise"
        assert port.endswith(f":{values['POSTFIT_PORT']}")


def test_compose_waits_longer_than_a_stop_takes() -> None:
    settings = Settings.from_env({**variables(), **COMPOSE["environment"]})
    assert float(COMPOSE["stop_grace_period"].removesuffix("s")) > drain_seconds(settings) + settings.grace_seconds + 5


@dataclass(frozen=True)
class Image:
    """Where the folders of the image are, and what its processes see."""

    folder: Path

    def place(self, text: str) -> str:
        """The text with the image's folders replaced by those of this one."""
        return re.sub(rf"(?<![\w.])/({'|'.join(FOLDERS)})\b", rf"{self.folder}/\1", text)

    def env(self, **changes: str) -> dict[str, str]:
        values = {name: self.place(value) for name, value in variables().items()}
        values["PATH"] = values["PATH"].replace("$PATH", os.environ["PATH"])
        clean = {k: v for k, v in environ().items() if not k.startswith(("PYTHON", "NUMBA_", "VIRTUAL_ENV"))}
        return {**clean, **values, **changes}

    def build(self, step: str, here: Path) -> None:
        """Do a RUN step there; a virtual environment is made by the Python of these tests."""
        text = self.place(re.sub(r"^python -m venv", f"{shlex.quote(sys.executable)} -m venv", step))
        out = subprocess.run(
            text, shell=True, env=self.env(), cwd=here, capture_output=True, text=True, timeout=BUILD_SECONDS,
            check=False,
        )  # fmt: skip
        assert out.returncode == 0, f"{step}\n{out.stdout}\n{out.stderr}"

    def call(self, command: list[str], **changes: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, env=self.env(**changes), cwd=self.folder / "data", capture_output=True, text=True,
            timeout=BUILD_SECONDS, check=False,
        )  # fmt: skip


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """Every step of the Dockerfile that needs no container, done in temporary folders from a clean copy."""
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        pytest.skip("the clean copy is made by git, and this is not a git checkout")
    folder = tmp_path_factory.mktemp("image")
    for name in FOLDERS[1:]:
        (folder / name).mkdir()
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        copied = {word for text in rest("COPY", STEPS) for word in text.split()[:-1]}
        files.extractall(
            folder / "app", [m for m in files.getmembers() if m.name.split("/")[0] in copied], filter="data"
        )
    made = Image(folder)
    done, here = 0, folder
    for name, text in STEPS:
        if name == "WORKDIR":
            here = Path(made.place(text))
        elif name == "RUN" and not text.startswith(ROOT_ONLY):
            made.build(text, here)
            done += 1
    assert done == 3
    return made


@pytest.mark.slow
def test_the_installed_package_is_complete(image: Image) -> None:
    out = image.call(["python", "-c", "import service; print(service.__file__)"])
    installed = Path(out.stdout.strip()).parent
    assert image.folder / "venv" in installed.parents, "installed, not linked"
    listed = subprocess.run(
        ["git", "ls-tree", "-r", "--name-only", "HEAD", "service"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert any(name.startswith("service/ui/assets/") for name in listed)
    assert any(name.startswith("service/samples/") for name in listed)
    missing = [name for name in listed if not (installed.parent / name).is_file()]
    assert missing == []


@pytest.mark.slow
def test_the_kernels_are_in_the_image(image: Image) -> None:
    kept = list((image.folder / "cache").rglob("*.nbc"))
    assert len(kept) >= 10
    again = image.call(["python", "-c", "from ml_core.numerics.jit import warm_up; warm_up()"])
    assert again.returncode == 0, again.stderr
    assert sorted(kept) == sorted((image.folder / "cache").rglob("*.nbc")), "nothing was compiled again"


@pytest.mark.slow
def test_it_starts_as_the_image_would_and_the_health_check_succeeds(image: Image) -> None:
    entry, words = json.loads(rest("ENTRYPOINT")[0]), json.loads(rest("CMD")[0])
    port = {"POSTFIT_PORT": str(free_port())}
    refused = image.call([*entry, *words], **port)
    assert refused.returncode == 2, refused.stderr
    assert "keys create NAME" in refused.stderr
    assert image.call([*entry, "keys", "create", "me"], **port).returncode == 0
    assert image.call(health(), **port).returncode != 0
    log = image.folder / "log"
    with log.open("wb") as sink:
        served = subprocess.Popen(
            [*entry, *words], env=image.env(**port), cwd=image.folder / "data", stdout=sink, stderr=sink
        )
    try:
        eventually(_healthy(image, served, port, log), 120.0)
    finally:
        served.terminate()
        assert served.wait(60) == 0, log.read_text()
    assert (image.folder / "data" / "service.db").exists()
    assert not any(path.suffix == ".db" for path in (image.folder / "app").iterdir())


def _healthy(image: Image, served: subprocess.Popen[bytes], port: dict[str, str], log: Path) -> Callable[[], bool]:
    def probe() -> bool:
        assert served.poll() is None, log.read_text()
        return image.call(health(), **port).returncode == 0

    return probe
