"""The first command of the README: serve, load a real table, fit a forest through the queue, show what comes back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

import httpx

from service.settings import Settings

START_SECONDS = 60.0
FIT = {
    "estimator": {"algorithm": "random_forest_classifier", "params": {"n_estimators": 300}},
    "dataset": "penguins", "target": "species", "encoding": {"missing": "drop_rows"},
    "features": ["island", "bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g", "sex"],
    "validation": {"method": "k_fold", "k": 5}, "name": "penguin-species",
}  # fmt: skip
BIRDS = [
    {"island": "Torgersen", "bill_length_mm": 39.1, "bill_depth_mm": 18.7, "flipper_length_mm": 181, "body_mass_g": 3750,
     "sex": "male"},
    {"island": "Biscoe", "bill_length_mm": 47.5, "bill_depth_mm": 14.0, "flipper_length_mm": 212, "body_mass_g": 4875,
     "sex": "female"},
    {"island": "Dream", "bill_length_mm": 43.0, "bill_depth_mm": 18.0, "flipper_length_mm": 195, "body_mass_g": 3700,
     "sex": "female"},
]  # fmt: skip


def quickstart(settings: Settings, *, stop: bool) -> int:
    """Run the tour; returns the exit code. The service stays up until Ctrl-C unless `stop`."""
    base = f"http://{settings.host}:{settings.port}"
    if _answers(base):
        print(f"Something already answers on {base}; give another --port.", file=sys.stderr)
        return 1
    command = [sys.executable, "-m", "service", "--data", str(settings.data), "serve", "--host", settings.host,
               "--port", str(settings.port)]  # fmt: skip
    log = settings.data / "service.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as sink:
        server = subprocess.Popen(command, stdout=sink, stderr=sink, env=dict(os.environ))
    try:
        return _tour(base, server, str(log), stop)
    except KeyboardInterrupt:
        return 0
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(30)


def _answers(base: str) -> bool:
    try:
        httpx.get(f"{base}/v1/health/live", timeout=1.0)
    except httpx.TransportError:
        return False
    return True


def _tour(base: str, server: subprocess.Popen[bytes], log: str, stop: bool) -> int:
    print(f"Starting the service on {base} (log: {log}) …", flush=True)
    deadline = time.monotonic() + START_SECONDS
    while not _answers(base):
        if server.poll() is not None or time.monotonic() > deadline:
            print(f"The service did not start; see {log}", file=sys.stderr)
            return 1
        time.sleep(0.1)
    with httpx.Client(base_url=base, timeout=120.0) as client:
        data = _ok(client.post("/v1/samples/penguins"))
        print(f"Loaded {data['name']}: {data['rows']} rows, {len(data['columns'])} columns, {data['id']}")
        model = _ok(client.post("/v1/models", json=FIT, headers={"Prefer": "respond-async"}))
        print(f"Queued a random forest of 300 trees as {model['id']} "
              "(the first start compiles its kernels, which are then kept)")  # fmt: skip
        _follow(client, model["job"])
        model = _ok(client.get(f"/v1/models/{model['id']}"))
        if model["state"] != "ready":
            print(f"The fit ended as {model['state']}: {json.dumps(model['error'])}", file=sys.stderr)
            return 1
        _show(client, model)
    print(f"\nThe service is running. Documentation to try everything: {base}/docs")
    if not stop:
        print("Press Ctrl-C to stop it.", flush=True)
        server.wait()
    return 0


def _ok(response: httpx.Response) -> Any:
    """The JSON of a good answer; a problem ends the tour with its text."""
    if response.is_error:
        raise SystemExit(f"{response.request.method} {response.request.url}: {response.status_code} {response.text}")
    return response.json()


def _follow(client: httpx.Client, job: str) -> None:
    """Draw the progress bar from the job's event stream."""
    with client.stream("GET", f"/v1/jobs/{job}/events", timeout=None) as stream:
        for line in stream.iter_lines():
            if line.startswith("data: "):
                _bar(json.loads(line.removeprefix("data: ")))
    print()


def _bar(job: dict[str, Any]) -> None:
    progress = job["progress"] or {}
    share = 1.0 if job["state"] == "succeeded" else progress.get("fraction") or 0.0
    filled = int(40 * share)
    text = (
        f"\r[{'#' * filled}{'.' * (40 - filled)}] {share:4.0%} {job['state']:<10} {progress.get('message') or '':<24}"
    )
    print(text, end="", flush=True)


def _show(client: httpx.Client, model: dict[str, Any]) -> None:
    here = f"/v1/models/{model['id']}"
    answer = _ok(client.post(f"{here}/predict", json={"rows": BIRDS}))
    classes = answer["probabilities"]["classes"]
    print(f"\n{'prediction':<12}" + "".join(f"P({c})".rjust(14) for c in classes))
    for label, row in zip(answer["predictions"], answer["probabilities"]["values"], strict=True):
        print(f"{label:<12}" + "".join(f"{p:14.3f}" for p in row))
    held = model["metrics"]["validation"]
    print(
        f"\n5-fold accuracy {held['accuracy']:.4f}, log-loss {_number(held['log_loss'])}; fit {model['fit_seconds']:.2f} s"
    )
    report = _ok(client.get(f"{here}/diagnostics"))
    for name, value in report["summary"].items():
        print(f"  {name:<32} {_number(value)}")
    for c in report["certificates"]:
        print(f"  [{'holds' if c['holds'] else 'FAILS'}] {c['name']} = {_number(c['value'])}: {c['meaning']}")


def _number(value: Any) -> str:
    return "n/a" if value is None else f"{value:.6g}" if isinstance(value, (int, float)) else str(value)
