"""The model card of a saved estimator: training data, scores, settings and versions."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import jinja2

LEFT_OUT = "Measured on series that were left out of the fit in turn (bank), or held out for early stopping (network)."


def model_card(estimator: Any, config: dict[str, Any]) -> str:
    """README.md, with the header that the Hugging Face Hub reads."""
    about = estimator.about_
    data = {
        "series": f"{about['series']:,}",
        "steps": f"{about['shortest']:,} to {about['longest']:,}",
        "channels": ", ".join(estimator.channel_names_ or [str(estimator.n_channels_)]),
    }
    data |= {"target": about["target"]} if "target" in about else {}
    if "classes" in about:
        data["classes"] = ", ".join(f"{name} ({count})" for name, count in about["classes"].items())
    else:
        data["targets"] = about["targets"]
    scores = {name.replace("_", " "): f"{value:.4g}" for name, value in about["scores"].items()}
    settings = {name: f"`{value!r}`" for name, value in config["settings"].items()}
    environment = jinja2.Environment(trim_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined)
    environment.filters["cell"] = lambda value: str(value).replace("|", r"\|").replace("\n", " ")
    template = files("unicornn.estimators").joinpath("card.md.jinja").read_text(encoding="utf-8")
    return environment.from_string(template).render(
        config=config,
        kind="classification" if "classes" in about else "regression",
        sections=[
            ("Data", "", data),
            ("Scores", LEFT_OUT, scores),
            ("Settings", "", settings),
            ("Versions", "", config["versions"]),
        ],
    )
