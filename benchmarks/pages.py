"""Generated parts of the pages in docs/: blocks between <!-- name --> and <!-- /name -->."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence


def fill(text: str, blocks: Mapping[str, Sequence[str]]) -> str:
    """The page with the lines of each block in their place."""
    for name, lines in blocks.items():
        block = "\n".join([f"<!-- {name} -->", *lines, f"<!-- /{name} -->"])
        text, count = re.subn(rf"<!-- {name} -->.*?<!-- /{name} -->", lambda _, b=block: b, text, flags=re.S)  # type: ignore[misc]
        if count != 1:
            raise ValueError(f"page: expected one block <!-- {name} --> … <!-- /{name} -->, found {count}")
    return text
