"""The first command of the README: serve, load a real table, fit a forest through the queue, show what comes back."""

from __future__ import annotations

import errno
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Any

import httpx

from service.container import build
from service.loopback import beyond_loopback
from service.settings import Settings

START_SECONDS = 120.0
STOP_SECONDS = 30.0
TREES = 300
WIDTH = 40
REACHED = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "::1": "[::1]"}  # noqa: S104 - where a server on all addresses answers
FIT = {
    "estimator": {"algorithm": "random_forest_classifier", "params": {"n_estimators": TREES}},
    "dataset": "penguins", "target": "species", "encoding": {"missing": "drop_rows"},
    "features": ["island", "bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g", "sex"],
    "validation": {"method": "k_fold", "k": 5}, "name": "penguin-species",
}  # fmt: skip
BIRDS = [
    {"island": "Torgersen", "bill_length_mm": 39.1, "bill_depth_mm": 18.7, "flipper_length_mm": 181,
     "body_mass_g": 3750, "sex": "male"},
    {"island": "Biscoe", "bill_length_mm": 47.5, "bill_depth_mm": 14.0, "flipper_length_mm": 212, "body_mass_g": 4875,
     "sex": "female"},
    {"island": "Dream", "bill_length_mm": 43.0, "bill_depth_mm": 18.0, "flipper_length_mm": 195, "body_mass_g": 3700,
     "sex": "female"},
]  # fmt: skip
ASKED = threading.Event()
LOOK_SECONDS = 0.5


def _interrupt(number: int, frame: object) -> None:
    """Stop the tour, also where whatever ran at that moment swallows the exception."""
    ASKED.set()
    raise KeyboardInterrupt


def quickstart(settings: Settings, *, stop: bool) -> int:
    """Run the tour; returns the exit code. The service stays up until Ctrl-C unless `stop`."""
    base = f"http://{REACHED.get(settings.host, settings.host)}:{settings.port}"
    if not _free(settings.host, settings.port):
        print(
            f"Port {settings.port} of {settings.host} is in use, perhaps by a service that already runs.\n"
            f"See {base}/docs, or start on another port: python -m service quickstart --port {settings.port + 1}",
            file=sys.stderr,
        )
        return 1
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    command = [sys.executable, "-m", "service", "--data", str(settings.data), "serve", "--host", settings.host,
               "--port", str(settings.port)]  # fmt: skip
    settings.data.mkdir(parents=True, exist_ok=True)
    log = settings.data / "service.log"
    key, secret = _key(settings)
    with log.open("ab") as sink:
        server = subprocess.Popen(command, stdout=sink, stderr=sink)
    try:
        return _tour(base, server, str(log), stop, secret)
    except KeyboardInterrupt:
        print("\nStopping the service …", flush=True)
        return 0
    except httpx.TransportError as lost:
        print(f"\nThe service does not answer any more ({lost}); see {log}", file=sys.stderr)
        return 1
    finally:
        _end(server)
        if key and stop:
            build(settings).keys.revoke(key)


def _key(settings: Settings) -> tuple[str, str]:
    """An API key for the tour where the service asks for one: its id and secret, else empty."""
    if not settings.require_keys and not beyond_loopback(settings.host):
        return "", ""
    key, secret = build(settings).keys.create("quickstart")
    print(f"Key      {secret} (made for this tour, for the header Authorization: Bearer …; revoke it with\n"
          f"         python -m service --data {settings.data} keys revoke {key})", flush=True)  # fmt: skip
    return key, secret


def _free(host: str, port: int) -> bool:
    """Whether the service could listen there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as taken:
            return taken.errno != errno.EADDRINUSE  # anything else is told by the service itself
    return True


def _end(server: subprocess.Popen[bytes]) -> None:
    """Ask the service to end, which lets running fits go back to the queue; kill it when it does not."""
    server.terminate()
    try:
        server.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def _start(base: str, server: subprocess.Popen[bytes], log: str) -> bool:
    """Wait until the service answers; tells the end of its log when it does not."""
    print(f"Starting the service on {base} (log: {log}) …", flush=True)
    deadline = time.monotonic() + START_SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        try:
            httpx.get(f"{base}/v1/health/live", timeout=5.0)
            return True
        except httpx.TransportError:
            time.sleep(0.1)
    with open(log, errors="replace") as lines:
        print(f"The service did not start. The end of {log}:\n{''.join(lines.readlines()[-5:])}", file=sys.stderr)
    return False


def _tour(base: str, server: subprocess.Popen[bytes], log: str, stop: bool, secret: str) -> int:
    if not _start(base, server, log):
        return 1
    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    with httpx.Client(base_url=base, timeout=120.0, headers=headers) as client:
        data = _ok(client.post("/v1/samples/penguins"))
        print(f"Table    {data['name']}: {data['rows']} rows, {len(data['columns'])} columns ({data['id']})")
        model = _ok(client.post("/v1/models", json=FIT, headers={"Prefer": "respond-async"}))
        print(f"Queued   a random forest of {TREES} trees and its 5-fold validation ({model['id']})")
        print("         On a new machine this first compiles its kernels, up to a minute; they are then kept.")
        _follow(client, model["job"])
        model = _ok(client.get(f"/v1/models/{model['id']}"))
        if model["state"] != "ready":
            print(f"The fit ended as {model['state']}: {json.dumps(model['error'])}", file=sys.stderr)
            return 1
        _show(client, model)
    if stop:
        print("\nThat was the tour. Without --exit the service keeps running, with its documentation at:")
    else:
        print("\nThe service is running; press Ctrl-C to stop it. Try everything in its documentation:")
    print(f"  {base}/docs", flush=True)
    if stop:
        return 0
    while (code := server.poll()) is None:
        if ASKED.wait(LOOK_SECONDS):
            raise KeyboardInterrupt
    print(f"The service ended with code {code}; see {log}", file=sys.stderr)
    return 1


def _ok(response: httpx.Response) -> Any:
    """The JSON of a good answer; a problem ends the tour with its text."""
    if response.is_error:
        raise SystemExit(f"{response.request.method} {response.request.url}: {response.status_code} {response.text}")
    return response.json()


def _follow(client: httpx.Client, job: str) -> None:
    """Draw the progress from the job's event stream: one line redrawn on a terminal, one line per quarter elsewhere."""
    drawn = ""
    with client.stream("GET", f"/v1/jobs/{job}/events", timeout=None) as stream:
        for line in stream.iter_lines():
            if not line.startswith("data: "):
                continue
            state = json.loads(line.removeprefix("data: "))
            share = _share(state)
            bar = _bar(state, share)
            if sys.stdout.isatty():
                print(f"\r{bar}\x1b[K", end="", flush=True)
            elif (mark := f"{state['state']} {int(4 * share)}") != drawn:
                drawn = mark
                print(bar, flush=True)
    if sys.stdout.isatty():
        print()


def _share(job: dict[str, Any]) -> float:
    return 1.0 if job["state"] == "succeeded" else (job["progress"] or {}).get("fraction") or 0.0


def _bar(job: dict[str, Any], share: float) -> str:
    said = (job["progress"] or {}).get("message") or ""
    filled = int(WIDTH * share)
    bar = "#" * filled + "." * (WIDTH - filled)
    return f"[{bar}] {share:4.0%}  {job['state']}{f', {said}' if said else ''}"


def _show(client: httpx.Client, model: dict[str, Any]) -> None:
    here = f"/v1/models/{model['id']}"
    answer = _ok(client.post(f"{here}/predict", json={"rows": BIRDS}))
    classes = answer["probabilities"]["classes"]
    print("\nThree birds the forest has not seen")
    print(f"  {'prediction':<12}" + "".join(f"P({c})".rjust(14) for c in classes))
    for label, row in zip(answer["predictions"], answer["probabilities"]["values"], strict=True):
        print(f"  {label:<12}" + "".join(f"{p:14.3f}" for p in row))
    report = _ok(client.get(f"{here}/diagnostics"))
    held = model["metrics"]["validation"]
    print(f"\n5-fold accuracy {held['accuracy']:.4f}, log-loss {_number(held['log_loss'])}")
    print(f"\nDiagnostics (the fit took {model['fit_seconds']:.2f} s)")
    for name, value in report["summary"].items():
        print(f"  {name:<24} {_number(value)}")
    print("\nCertificates, recomputed from the fitted forest and the table")
    for c in report["certificates"]:
        print(f"  [{'holds' if c['holds'] else 'FAILS'}] {c['name']} = {_number(c['value'])}: {c['meaning']}")


def _number(value: Any) -> str:
    return "n/a" if value is None else f"{value:.6g}" if isinstance(value, (int, float)) else str(value)
