"""The model card of a saved estimator: what it was fitted to, how well, with which settings and versions."""

from __future__ import annotations

from typing import Any


def card(estimator: Any, config: dict[str, Any]) -> str:
    """README.md, with the header that the Hugging Face Hub reads."""
    about = estimator.about_
    what = "classification" if "classes" in about else "regression"
    rows = {
        "series": f"{about['series']:,}",
        "steps": f"{about['shortest']:,} to {about['longest']:,}",
        "channels": ", ".join(estimator.channel_names_ or [str(estimator.n_channels_)]),
    }
    if "target" in about:
        rows["target"] = str(about["target"])
    if "classes" in about:
        rows["classes"] = ", ".join(f"{name} ({count})" for name, count in about["classes"].items())
    else:
        rows["targets"] = str(about["targets"])
    measured = {name.replace("_", " "): f"{value:.4g}" for name, value in about["scores"].items()}
    settings = {name: f"`{value!r}`" for name, value in config["settings"].items()}
    return f"""---
library_name: unicornn
pipeline_tag: {"time-series-classification" if what == "classification" else "time-series-regression"}
tags: [time-series, {what}, unicornn]
---

# {config["class"]}

Time-series {what} with oscillators; model: {" and ".join(config["models"])}. To load it:

```python
from unicornn.estimators import {config["class"]}

model = {config["class"]}.from_pretrained("PATH OF THIS FOLDER")
```

## Data
{_table("training data", rows)}
## Metric
Measured on series that were left out of the fit in turn (bank), or held back from it for early stopping (network).

{_table("metric", measured)}
## Settings
{_table("setting", settings)}
## Versions
{_table("package", config["versions"])}"""


def _table(name: str, rows: dict[str, str]) -> str:
    lines = [f"| {key} | {str(value).replace('|', chr(92) + '|')} |" for key, value in rows.items()]
    return "\n".join([f"| {name} | |", "|---|---|", *lines, ""])
