"""The HTML page of a report: one file that asks nobody for anything."""

from __future__ import annotations

import json
import os
from typing import Any

from mindtorch.tools.appending import replace


def render(report: dict[str, Any]) -> str:
    """The page. ImportError without Jinja2."""
    try:
        import jinja2
        import markupsafe
    except ImportError as e:
        raise ImportError("the HTML report needs Jinja2: pip install jinja2") from e
    here = os.path.dirname(os.path.abspath(__file__))
    env = jinja2.Environment(loader=jinja2.FileSystemLoader(here), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    with open(os.path.join(here, "page.js"), encoding="utf-8") as f:
        script = markupsafe.Markup(f.read())
    return env.get_template("page.html.j2").render(data=report, split=report["split"], advice=report["advice"], script=script)


def save(report: dict[str, Any], path: str) -> None:
    """Write the page, in one step."""
    text = render(report)
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    replace(path, lambda f: f.write(text.encode("utf-8")), 0o644)


def save_json(report: dict[str, Any], path: str) -> None:
    """Write the same figures as JSON."""
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    replace(path, lambda f: f.write(json.dumps(report, indent=1).encode("utf-8")), 0o644)
