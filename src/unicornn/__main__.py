"""``python -m unicornn`` and the command ``unicornn``."""

import sys

from unicornn._extras import missing_library


def main() -> None:
    try:
        from unicornn.lab.cli import main as run
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "unicornn":
            raise
        print(f"error: {missing_library(str(error.name), sys.argv[1:])}", file=sys.stderr)
        raise SystemExit(1) from None
    run()


if __name__ == "__main__":
    main()
