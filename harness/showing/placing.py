"""Places figures in a page, fills its shell, and writes it whole or not at all."""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from harness.showing.page import PAGE, STYLE

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_CONFIG = {
    "responsive": True,
    "displaylogo": False,
    "displayModeBar": "hover",
    "modeBarButtons": [["toImage", "resetScale2d"]],
}


class ReportError(RuntimeError):
    """The page could not be written; the message is one line for the user."""


def save(path: str | os.PathLike[str], content: str | bytes, what: str = "page") -> None:
    """Writes a file; one that was there is replaced at once or not at all.

    Raises
    ------
    ReportError
        When it cannot be written; `what` names it there.
    """
    target = Path(path)
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        draft.write_bytes(content if isinstance(content, bytes) else content.encode())
        draft.replace(target)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise ReportError(f"{target}: the {what} cannot be written ({error.strerror})") from error


def filled(kind: str, title: str, what: str, body: str, plots: Mapping[str, Figure], head: str = "") -> str:
    """The whole page: what it is a page of, its title, a line on what was done, its body, its figures by place."""
    from plotly.offline import get_plotlyjs

    return PAGE.substitute(
        kind=html.escape(kind),
        title=html.escape(title),
        what=html.escape(what),
        head=head,
        style=STYLE.strip(),
        body=body,
        plotly=get_plotlyjs(),
        scripts="\n".join(_script(name, plot) for name, plot in plots.items()),
    )


def placed(
    plots: dict[str, Figure], name: str, plot: Figure, caption: str = "", height: int | None = None
) -> str:
    """The place of a figure with its caption (HTML); the figure itself is drawn by a script at the page's end."""
    if height is not None:
        plot.update_layout(height=height)
    plots[name] = plot
    above = f"<figcaption>{caption}</figcaption>" if caption else ""
    size = f"height: {plot.layout.height}px"
    return f'<figure>{above}<div id="{html.escape(name)}" style="{size}"></div></figure>'


def joined(text: str) -> str:
    """The text with each figure kept on one line with its unit."""
    return re.sub(r"(?<=[0-9]) (?=%|ns|µs|ms|s\b|bytes|[KMG]iB)", "\u00a0", text)


def _script(name: str, plot: Figure) -> str:
    """The call that draws a figure in its place; plotly escapes what could end the script.

    What stands behind a line to click is drawn when it is opened: until then it has no width to be drawn in.
    """
    from plotly.io import to_json

    place, config = json.dumps(name).replace("<", "\\u003c"), json.dumps(_CONFIG)
    return (
        "<script>(figure => {"
        f"const draw = () => Plotly.newPlot({place}, figure.data, figure.layout, {config});"
        f'const fold = document.getElementById({place}).closest("details:not([open])");'
        'fold ? fold.addEventListener("toggle", draw, {once: true}) : draw();'
        f"}})({to_json(plot)});</script>"
    )
