"""Commands: `python -m service serve | runner | quickstart | keys`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from service.errors import WrongKey
from service.loopback import beyond_loopback
from service.settings import Settings


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="postfit", description="POST a table and a learning algorithm.")
    parser.add_argument("--data", type=Path, help="folder of the database, tables and models")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (("serve", "run the HTTP service"), ("quickstart", "serve, fit a forest on a sample, show it")):
        command = commands.add_parser(name, help=text)
        command.add_argument("--host")
        command.add_argument("--port", type=int)
        if name == "serve":
            command.add_argument("--no-keys", action="store_true", help="listen beyond loopback without API keys")
        else:
            command.add_argument("--exit", action="store_true", help="stop the service at the end")
    commands.add_parser("runner", help="run a worker (the service starts one itself)")
    keys = commands.add_parser("keys", help="make, list and revoke API keys").add_subparsers(
        dest="action", required=True
    )
    keys.add_parser("create").add_argument("name")
    keys.add_parser("list")
    keys.add_parser("revoke").add_argument("id")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    given = _parser().parse_args(argv)
    settings = Settings.from_env(
        os.environ, data=given.data, host=getattr(given, "host", None), port=getattr(given, "port", None)
    )
    try:
        return {"serve": _serve, "runner": _runner, "quickstart": _quickstart, "keys": _keys}[given.command](
            settings, given
        )
    except WrongKey as refused:
        print(refused, file=sys.stderr)
        return 2


def _serve(settings: Settings, given: argparse.Namespace) -> int:
    from service.api.server import opened, serve  # noqa: PLC0415 - a command loads what it needs: `keys` starts fast

    if beyond_loopback(settings.host) and not given.no_keys:
        settings = settings.model_copy(update={"require_keys": True})
        if not opened(settings).keys.page():
            print(
                f"{settings.host} is reachable from other machines and there is no API key yet. Make one with\n"
                "  python -m service keys create NAME\n"
                "or say --no-keys to serve without (anybody who reaches the port can then read and write).",
                file=sys.stderr,
            )
            return 2
    return serve(settings)


def _runner(settings: Settings, given: argparse.Namespace) -> int:
    from service.runner.loop import main as run  # noqa: PLC0415

    run(settings)
    return 0


def _quickstart(settings: Settings, given: argparse.Namespace) -> int:
    from service.quickstart import quickstart  # noqa: PLC0415

    return quickstart(settings, stop=given.exit)


def _keys(settings: Settings, given: argparse.Namespace) -> int:
    from service.container import build  # noqa: PLC0415

    keys = build(settings).keys
    if given.action == "create":
        key_id, secret = keys.create(given.name)
        print(
            f"{key_id}\n{secret}\nSend it as: Authorization: Bearer {secret}\n"
            "It is not stored and cannot be shown again."
        )
    elif given.action == "revoke":
        keys.revoke(given.id)
        print(f"{given.id} is revoked")
    else:
        for row in keys.page():
            print(row["id"], row["name"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
