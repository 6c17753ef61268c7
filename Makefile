# A convenience, never a requirement: each line is a command of the README.
fmt:   ; .venv/bin/ruff check --fix .
lint:  ; .venv/bin/ruff check .
types: ; .venv/bin/mypy
test:  ; .venv/bin/python -m pytest -n 2 --dist worksteal
bench: ; .venv/bin/python -m benchmarks.fit
image: ; docker build -t postfit .
.PHONY: fmt lint types test bench image
