"""Commands: `python -m service serve | runner | quickstart | keys | migrate | backup | restore | doctor`."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from service.errors import ServiceError
from service.loopback import beyond_loopback
from service.settings import Settings, refused


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
    _add_stores(commands)
    for command in commands.choices.values():  # the option may stand before or behind the command
        command.add_argument("--data", type=Path, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    return parser


def _add_stores(commands: Any) -> None:
    commands.add_parser("migrate", help="bring the database to this version's schema (every start does so too)")
    saved = commands.add_parser("backup", help="write database, tables and models to a new file; the service may run")
    saved.add_argument("file", type=Path)
    saved.add_argument("--with-secret", action="store_true", help="put the key that signs models into the file")
    filled = commands.add_parser("restore", help="fill an empty data folder, database and store from a backup")
    filled.add_argument("file", type=Path)
    looks = commands.add_parser("doctor", help="look at every part the service needs, say what to do; 1 when one fails")
    looks.add_argument("--json", action="store_true", help="for programs")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    given = _parser().parse_args(argv)
    if given.command == "doctor":
        return _doctor(given)
    try:
        settings = Settings.from_env(
            os.environ, data=given.data, host=getattr(given, "host", None), port=getattr(given, "port", None)
        )
    except ValidationError as wrong:
        print(f"{refused(wrong)}: correct or remove these variables or options", file=sys.stderr)
        return 2
    run = {
        "serve": _serve, "runner": _runner, "quickstart": _quickstart, "keys": _keys, "migrate": _migrate,
        "backup": _backup, "restore": _restore,
    }[given.command]  # fmt: skip
    try:
        if given.command in ("serve", "runner", "quickstart"):
            _need_folder(settings.data.absolute())
        return run(settings, given)
    except ServiceError as error:
        print(error, file=sys.stderr)
        return 2


def _need_folder(folder: Path) -> None:
    """Make the data folder where it is missing; ServiceError when it cannot be made or written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ServiceError(
            f"the data folder {folder} cannot be used ({error.strerror}): correct POSTFIT_DATA or its permissions"
        ) from error


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


def _migrate(settings: Settings, given: argparse.Namespace) -> int:
    from service.adapters.database import connect  # noqa: PLC0415
    from service.adapters.migrations import migrate  # noqa: PLC0415

    db = connect(settings.database_url)
    before, after = migrate(db)
    db.close()
    print(f"{before or 'an empty database'} → {after}")
    return 0


def _backup(settings: Settings, given: argparse.Namespace) -> int:
    from service.commands.backup import backup  # noqa: PLC0415

    done = backup(settings, given.file, with_secret=given.with_secret)
    print(f"{given.file}: {done}")
    if done.secret:
        print("It holds the key that signs models: keep it as you keep a password.")
    else:
        print("The key that signs models is not in it: keep secret.key or POSTFIT_SECRET too, restoring needs it.")
    return 0


def _restore(settings: Settings, given: argparse.Namespace) -> int:
    from service.commands.restore import restore  # noqa: PLC0415

    print(f"restored {restore(settings, given.file)}")
    return 0


def _doctor(given: argparse.Namespace) -> int:
    from service.commands.doctor import as_json, as_table, examine, well  # noqa: PLC0415

    findings = examine(os.environ, given.data)
    print(as_json(findings) if given.json else as_table(findings))
    return 0 if well(findings) else 1


if __name__ == "__main__":
    sys.exit(main())
