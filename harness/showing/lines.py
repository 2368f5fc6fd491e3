"""The curves of a sweep as figures and pages draw them, from a sweep's document or from analysed series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.watching.timeline import Timeline
from models import outside
from models.knobs import Value
from models.metrics import Finding, Mark, Metrics
from models.series import Peak, Point, Series

# Okabe and Ito 2008, told apart with every common colour blindness; its yellow is too pale on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "star", "hexagon")
Remarks = Mapping[float, tuple[str, ...]]
Samples = Mapping[float, Timeline]
LONGEST = 60  # characters of a name or an address in a title


@dataclass(frozen=True, slots=True)
class Line:
    """One curve with what a figure needs to draw it.

    Attributes
    ----------
    label : str
        What tells it from the other curves, as text (not yet escaped).
    law : str or None
        The chosen law, with the values of its parameters.
    document : mapping
        The curve's element of `series` in the sweep's document.
    remarks : mapping of float to tuple of str
        By value: why there is no prediction, and which runs failed.
    samples : mapping of float to Timeline
        By value: what the server's processes did over time, where they were sampled.
    """

    label: str
    variable: str
    points: tuple[Point, ...]
    law: str | None
    parameters: Mapping[str, float]
    peak: Peak
    colour: str
    symbol: str
    document: Mapping[str, Any]
    remarks: Remarks = field(default_factory=dict)
    samples: Mapping[float, Timeline] = field(default_factory=dict)

    @property
    def measured(self) -> tuple[Point, ...]:
        """The points that were measured, broken ones among them."""
        return tuple(point for point in self.points if point.measured)


Source = Mapping[str, Any] | Series | Sequence[Series] | Sequence[Line]


def lines_of(source: Source) -> tuple[Line, ...]:
    """The curves of a sweep's document, of analysed series, or themselves."""
    if isinstance(source, Mapping):
        rows = [(row, *_parts(row, source["cells"])) for row in source["series"]]
    else:
        items = (source,) if isinstance(source, Series) else tuple(source)
        if all(isinstance(item, Line) for item in items):
            return tuple(item for item in items if isinstance(item, Line))
        rows = [(item.to_json(), item.points, {}, {}) for item in items if isinstance(item, Series)]
    labels = labels_of([row["fixed"] for row, *_ in rows])
    return tuple(
        _line(row, points, remarks, samples, label, place)
        for place, ((row, points, remarks, samples), label) in enumerate(zip(rows, labels, strict=True))
    )


def _line(
    row: Mapping[str, Any],
    points: tuple[Point, ...],
    remarks: Remarks,
    samples: Samples,
    label: str,
    place: int,
) -> Line:
    fit = next((fit for fit in row["fits"] if fit["law"] == row["law"]), None)
    return Line(
        label=label,
        variable=row["variable"],
        points=points,
        law=row["law"],
        parameters={name: found["value"] for name, found in fit["parameters"].items()} if fit else {},
        peak=Peak.from_json(row["peak"], fitted=fit is not None),
        colour=COLOURS[place % len(COLOURS)],
        symbol=SYMBOLS[place % len(SYMBOLS)],
        document=row,
        remarks=remarks,
        samples=samples,
    )


def labels_of(fixed: Sequence[Mapping[str, Value]]) -> list[str]:
    """A short label for each curve: the settings in which they differ, or else service and server."""
    names = list(dict.fromkeys(name for row in fixed for name in row))
    differ = [name for name in names if len({row.get(name) for row in fixed}) > 1]
    if differ:
        return [", ".join(f"{name} = {row[name]}" for name in differ if name in row) for row in fixed]
    return [system_of(row) or "measured" for row in fixed]


def system_of(settings: Mapping[str, Any]) -> str:
    """A system in a title: service and server, or the program, address or file of one that is not ours.

    Parameters
    ----------
    settings : mapping
        A curve's fixed settings, or a scenario's service, server and options in one.
    """
    server = settings.get("server")
    name = "file" if settings.get("file") else server if server in ("command", "target") else ""
    text = str(settings.get(name) or "")
    if name == "command":
        text = outside.program(text)
    if text:
        shown = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
        return f"figures from {shown}" if name == "file" else shown
    return " on ".join(str(settings[part]) for part in ("service", "server") if part in settings)


def _parts(
    series: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]
) -> tuple[tuple[Point, ...], Remarks, Samples]:
    """The cells that belong to a series, by rising value of its variable, what is to say of them, their samples."""
    found, remarks, samples = [], {}, {}
    for cell in cells:
        scenario = cell["scenario"]
        knobs = {**scenario["options"], **{name: scenario[name] for name in scenario if name != "options"}}
        if series["variable"] not in knobs or any(knobs.get(k) != v for k, v in series["fixed"].items()):
            continue
        x = float(knobs[series["variable"]])
        remarks[x] = _remarks(cell)
        if cell.get("samples"):
            samples[x] = Timeline.from_json(cell["samples"])
        found.append(
            Point(
                x=x,
                measured=Metrics.from_json(cell["measured"]) if cell["measured"] else None,
                predicted=Metrics.from_json(cell["predicted"]) if cell["predicted"] else None,
                broken=tuple(Mark.from_json(mark) for mark in cell["broken"]),
                findings=tuple(Finding.from_json(finding) for finding in cell["findings"]),
            )
        )
    return tuple(sorted(found, key=lambda point: point.x)), remarks, samples


def _remarks(cell: Mapping[str, Any]) -> tuple[str, ...]:
    refused = [f"not predicted: {cell['refusal']}"] if cell.get("refusal") else []
    return (*refused, *(f"run {row['block']} failed: {row['message']}" for row in cell.get("failures", ())))
