"""The files of a cluster (compose profile, Kubernetes, nginx, Prometheus): parsed, and accepted by what they start."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from distributed.cli.dask_scheduler import main as scheduler
from distributed.cli.dask_worker import main as worker

from service.__main__ import _parser
from service.api.server import drain_seconds
from service.container import Services
from service.settings import PREFIX, Settings
from tests.conftest import serving

ROOT = Path(__file__).parents[1]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
CLUSTER = {name: s for name, s in COMPOSE["services"].items() if s.get("profiles") == ["cluster"]}
OURS = {name: s for name, s in CLUSTER.items() if s.get("image") == "postfit"}
KUBERNETES = ROOT / "docs" / "kubernetes"
DASK = {"distributed.cli.dask_scheduler": scheduler, "distributed.cli.dask_worker": worker}


def manifests(kind: str) -> list[dict[str, Any]]:
    files = sorted(KUBERNETES.glob("*.yaml"))
    found = [d for f in files for d in yaml.safe_load_all(f.read_text())]
    return [d for d in found if d["kind"] == kind]


def pod(deployment: dict[str, Any]) -> dict[str, Any]:
    return deployment["spec"]["template"]["spec"]


def container(deployment: dict[str, Any]) -> dict[str, Any]:
    (found,) = pod(deployment)["containers"]
    return found


def settings_of(values: dict[str, str]) -> Settings:
    assert all(isinstance(v, str) for v in values.values()), "YAML would make another type of it"
    return Settings.from_env({k: v for k, v in values.items() if k.startswith(PREFIX)})


def accepted(entry: list[str] | None, words: list[str]) -> None:
    """Parse the command as the program would."""
    assert all(isinstance(w, str) for w in [*(entry or []), *words])
    if entry is None:
        _parser().parse_args(words)
        return
    assert entry[:2] == ["python", "-m"]
    command = DASK[entry[2]]
    if "--preload" in words:
        module = words[words.index("--preload") + 1]
        assert (ROOT / (module.replace(".", "/") + ".py")).is_file()
    assert command.make_context("dask", list(words)).params


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """What the script makes, by file; a second run keeps it."""
    folder = tmp_path_factory.mktemp("deploy")
    script = folder / "secrets.sh"
    script.write_text((ROOT / "deploy" / "secrets.sh").read_text())
    texts = []
    for _ in range(2):
        subprocess.run(["sh", str(script)], check=True, capture_output=True, cwd="/")
        texts.append({f.name: f.read_text() for f in sorted(folder.glob("*.env*"))})
    assert texts[0] == texts[1]
    assert set(texts[0]) == {"service.env", "postgres.env", "s3.env"}
    assert all(os.stat(folder / name).st_mode & 0o077 == 0 for name in texts[0])
    return {name: dict(line.split("=", 1) for line in text.splitlines()) for name, text in texts[0].items()}


@pytest.mark.parametrize("name", OURS)
def test_every_service_of_ours_takes_its_command_and_settings(name: str, secrets: dict[str, dict[str, str]]) -> None:
    service = OURS[name]
    accepted(service.get("entrypoint"), service["command"])
    settings = settings_of({**secrets["service.env"], **service["environment"]})
    assert (settings.runner, settings.objects is not None, settings.secret is not None) == ("none", True, True)
    assert float(service["stop_grace_period"].removesuffix("s")) > (
        drain_seconds(settings) + settings.grace_seconds if "entrypoint" not in service else 1
    )
    assert (service["init"], service["read_only"], service["cap_drop"]) == (True, True, ["ALL"])
    assert settings.dask == f"tcp://dask-scheduler:{OURS['dask-scheduler']['command'][3]}"


def test_the_secrets_agree_with_each_other_and_with_the_services(secrets: dict[str, dict[str, str]]) -> None:
    url = secrets["service.env"]["POSTFIT_DATABASE"]
    user, password, host = re.fullmatch(r"postgresql\+psycopg://(\w+):(\w+)@(\w+):5432/postfit", url).groups()
    postgres = CLUSTER[host]
    assert password == secrets["postgres.env"]["POSTGRES_PASSWORD"]
    assert (user, "postfit") == (postgres["environment"]["POSTGRES_USER"], postgres["environment"]["POSTGRES_DB"])
    assert secrets["s3.env"].items() <= secrets["service.env"].items()
    named = {e["path"] for s in CLUSTER.values() for e in s.get("env_file", ())}
    assert named == {f"deploy/{name}" for name in secrets}
    assert "deploy/*.env" in (ROOT / ".gitignore").read_text().split()
    s3 = urlport(OURS["api"]["environment"]["AWS_ENDPOINT_URL"])
    assert f"-s3.port={s3[1]}" in CLUSTER[s3[0]]["command"]


def urlport(url: str) -> tuple[str, str]:
    host, port = url.rpartition("/")[2].split(":")
    return host, port


def test_what_is_depended_on_is_there_and_healthy_where_that_is_asked() -> None:
    for name, service in CLUSTER.items():
        for other, how in service.get("depends_on", {}).items():
            assert other in CLUSTER, (name, other)
            tested = "test" in CLUSTER[other].get("healthcheck", {}) or other == "api"  # the image's own check
            assert how["condition"] == "service_started" or tested, (name, other)
    started: set[str] = set()
    todo = ["proxy"]
    while todo:
        started.add(here := todo.pop())
        todo += [n for n in CLUSTER[here].get("depends_on", {}) if n not in started]
    assert started == set(CLUSTER), "`up proxy` starts all of them"


def test_images_are_pinned_and_nothing_is_published_beyond_this_machine() -> None:
    for name, service in CLUSTER.items():
        if name not in OURS:
            assert re.search(r":v?\d+\.\d+[\w.-]*$", service["image"]), service["image"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (ROOT / source).is_file(), source
            elif ":" in volume:
                assert source in COMPOSE["volumes"], source


def test_the_proxy_and_prometheus_find_the_servers() -> None:
    nginx, port = (ROOT / "deploy" / "nginx.conf").read_text(), Settings().port
    assert f"server api:{port} resolve" in nginx
    for line in ("proxy_buffering off", "proxy_request_buffering off", "return 421"):
        assert line in nginx
    assert {f"listen {p.split(':')[2]}" for p in CLUSTER["proxy"]["ports"]} <= set(re.findall(r"listen \d+", nginx))
    (job,) = yaml.safe_load((ROOT / "deploy" / "prometheus.yml").read_text())["scrape_configs"]
    (found,) = job["dns_sd_configs"]
    assert (found["names"], found["port"]) == (["api"], port)


def test_the_readme_has_the_one_command() -> None:
    command = "sh deploy/secrets.sh && docker compose --profile cluster up --build -d proxy"
    assert all(command in (ROOT / name).read_text() for name in ("README.md", "docker-compose.yml"))


@pytest.mark.parametrize("deployment", manifests("Deployment"), ids=lambda d: d["metadata"]["name"])
def test_deployments_take_their_commands_and_settings(deployment: dict[str, Any]) -> None:
    (config,), (secret,) = manifests("ConfigMap"), manifests("Secret")
    made, spec = container(deployment), pod(deployment)
    accepted(made.get("command"), made["args"])
    settings = settings_of({**config["data"], **secret["stringData"]})
    sources = [next(iter(e.values()))["name"] for e in made["envFrom"]]
    assert sources == [config["metadata"]["name"], secret["metadata"]["name"]]
    if "command" not in made:
        assert spec["terminationGracePeriodSeconds"] > settings.grace_seconds + 5 or made["args"] == ["serve"]
        assert spec["terminationGracePeriodSeconds"] > drain_seconds(settings) + 5
    assert deployment["spec"]["selector"]["matchLabels"] == deployment["spec"]["template"]["metadata"]["labels"]
    assert spec["enableServiceLinks"] is False, "the Service postfit would bring variables POSTFIT_SERVICE_…"
    assert spec["securityContext"]["runAsNonRoot"]
    assert str(spec["securityContext"]["runAsUser"]) in (ROOT / "Dockerfile").read_text()
    assert made["securityContext"]["readOnlyRootFilesystem"]
    assert {m["mountPath"] for m in made["volumeMounts"]} == {"/data", "/cache", "/tmp"}
    assert {m["name"] for m in made["volumeMounts"]} == {v["name"] for v in spec["volumes"]}
    assert not made["image"].endswith(":latest")


def test_selectors_and_ports_of_kubernetes_meet(services: Services) -> None:
    deployments = {d["metadata"]["name"]: d for d in manifests("Deployment")}
    for service in manifests("Service"):
        target = container(deployments[service["spec"]["selector"]["app"]])
        names = {p["name"] for p in target["ports"]}
        assert {p["targetPort"] for p in service["spec"]["ports"]} <= names
    for budget in manifests("PodDisruptionBudget"):
        assert budget["spec"]["selector"]["matchLabels"]["app"] in deployments
    for scaled in manifests("ScaledObject"):
        assert scaled["spec"]["scaleTargetRef"]["name"] in deployments
    guarded = {p["spec"]["podSelector"]["matchLabels"]["app"]: p["spec"]["ingress"] for p in manifests("NetworkPolicy")}
    assert set(guarded) == {name for name in deployments if "dask" in name}, "whoever reaches them runs code there"
    for rule in (r for ingress in guarded.values() for r in ingress):
        (peer,) = rule["from"]
        assert {v for e in peer["podSelector"]["matchExpressions"] for v in e["values"]} <= set(deployments)
    dask = f"tcp://{next(s for s in manifests('Service') if 'dask' in s['metadata']['name'])['metadata']['name']}:8786"
    assert manifests("ConfigMap")[0]["data"]["POSTFIT_DASK"] == dask
    api = container(deployments["postfit-api"])
    with serving(services) as client:
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert client.get(api[probe]["httpGet"]["path"]).status_code == 200
        text = client.get("/metrics").text
        for scaled in manifests("ScaledObject"):
            for name in re.findall(r"postfit_\w+", scaled["spec"]["triggers"][0]["metadata"]["query"]):
                assert f"\n{name}{{" in text, name
        for name in re.findall(r"postfit_\w+", (KUBERNETES / "README.md").read_text()):
            assert f"# TYPE {name} " in text, name
