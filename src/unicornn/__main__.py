"""``python -m unicornn`` and the command ``unicornn``."""

import sys


def main() -> None:
    try:
        from unicornn.lab.cli import main as run
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "unicornn":
            raise
        print(f"error: {error.name} is not installed; try pip install 'unicornn[train]'", file=sys.stderr)
        raise SystemExit(1) from None
    run()


if __name__ == "__main__":
    main()
