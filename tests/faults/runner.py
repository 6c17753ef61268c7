"""`python -m tests.faults.runner`: the real runner with the work of these tests."""

import os

from service.runner.loop import main
from service.settings import Settings

if __name__ == "__main__":
    main(
        Settings.from_env(os.environ), work="tests.faults.jobs:Worker", warm="tests.faults.jobs:warm",
    )  # fmt: skip
