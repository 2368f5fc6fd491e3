"""A sweep's document as text: a table for each series, its laws, its peak, why, and how noisy it was."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from harness.showing import trust
from harness.showing.advice import Advice, advice, mark_text
from harness.showing.lines import system_of
from harness.watching.timeline import UNITS, WORDS, Timeline
from models.metrics import Finding, Mark
from models.wording import amount, figure, interval, named, percent, set_of

Row = Sequence[str]
WIDTH = 100  # characters of a line


def lines(rows: Sequence[Row], heads: Row, words: int = 0) -> Iterator[str]:
    """Aligned columns under their heads; the last `words` columns to the left, the others to the right."""
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    for row in [heads, *rows]:
        cells = [
            cell.ljust(width) if i >= len(heads) - words else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def text(document: Mapping[str, Any]) -> str:
    """The whole result of a sweep."""
    parts = []
    for index, series in enumerate(document["series"]):
        cells = [cell for cell in document["cells"] if cell["series"] == index]
        parts.append("\n".join(_series(series, cells, document["series"])))
    parts += ["\n".join(_legend(advice(document["cells"])))] if advice(document["cells"]) else []
    parts.append("\n".join(_quality(document)))
    return "\n\n".join(parts)


def _series(
    series: Mapping[str, Any], cells: Sequence[Mapping[str, Any]], every: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    yield title(series, every)
    opened = any(cell["measured"] and cell["measured"].get("service") for cell in cells)
    predicted = any(cell["predicted"] for cell in cells)
    heads = (
        series["variable"],
        "measured/s",
        "95 %",
        *(("predicted/s", "error") if predicted else ()),
        "mean ms",
        "p99 ms",
        *(("p99 service ms", "backlog") if opened else ()),
        "CPU",
        "marks and findings",
    )
    refusals = {cell.get("refusal") if not cell["predicted"] else None for cell in cells}
    shared = refusals.pop() if len(refusals) == 1 and len(cells) > 1 else None
    rows = [_row(cell, opened, predicted, shared) for cell in cells]
    yield from _folded(rows, heads)
    if shared:
        yield _filled(f"not predicted: {shared}")
    errors = [abs(cell["error"]["throughput"]) for cell in cells if _scored(cell)]
    if errors:
        typical, worst = percent(median(errors)), percent(max(errors))
        yield f"prediction of throughput: off by {typical} in the median, {worst} at most"
    yield from (_fit(fit, fit["law"] == series["law"]) for fit in series["fits"])
    peak = series["peak"]
    if peak["value"] is not None:
        place = f"{series['variable']}={figure(peak['value'], 6)}"
        yield f"peak: {place}, set {set_of(tuple(peak['set']))} (95 %){_law_peak(series)}"
    yield _filled(series["explanation"]["text"])


def _law_peak(series: Mapping[str, Any]) -> str:
    peak = series["peak"]
    if series["law"] is None:
        return ""
    low, high = (math.inf if peak[name] is None else float(peak[name]) for name in ("low", "high"))
    if peak["law_value"] is None:
        return f"; by {series['law']}: none"
    return f"; by {series['law']}: {figure(peak['law_value'])} {interval(low, high)}"


def title(series: Mapping[str, Any], every: Sequence[Mapping[str, Any]]) -> str:
    """The system, and what tells this series from the others."""
    fixed = series["fixed"]
    other = {name for row in every for name in row["fixed"] if row["fixed"][name] != fixed.get(name)}
    named_already = ("service", "server", "file", "target" if fixed.get("server") == "target" else "")
    shown = {name: value for name, value in fixed.items() if name not in named_already}
    told = [f"{name}={value}" for name, value in shown.items() if name in other]
    told += [f"{name}={value}" for name, value in shown.items() if name not in other]
    system = system_of(fixed) or "series"
    return f"{system}{', ' if told else ''}{' '.join(told)}"


def _scored(cell: Mapping[str, Any]) -> bool:
    return bool(cell["error"] and not cell["broken"] and cell["error"]["throughput"] is not None)


def _folded(rows: Sequence[Row], heads: Row) -> Iterator[str]:
    """The table; what is to say of a cell stands below its figures where a line has no room for it."""
    top, *whole = lines(rows, heads, words=1)
    _, *figures = lines([row[:-1] for row in rows], heads[:-1])
    yield top
    for line, short, row in zip(whole, figures, rows, strict=True):
        yield line if len(line) <= WIDTH else f"{short}\n{_filled(row[-1], '    ', '      ')}"


def _row(cell: Mapping[str, Any], opened: bool, predictable: bool, shared: str | None) -> Row:
    measured, predicted, error = cell["measured"], cell["predicted"], cell["error"]
    response: Mapping[str, Any] = measured["response"] if measured else {"mean": {"value": None}, "p99": None}
    return (
        _number(cell["value"], 6),
        _number(measured and measured["throughput"]["value"], 4),
        _half(measured),
        *(_forecast(predicted, error) if predictable else ()),
        _number(response["mean"]["value"], 3, 1e3),
        _number(response["p99"], 3, 1e3),
        *(_open_figures(measured) if opened else ()),
        _share(measured and measured["utilisation"].get("cpu")),
        "; ".join(_marks(cell, shared)),
    )


def _forecast(predicted: Mapping[str, Any] | None, error: Mapping[str, Any] | None) -> Row:
    """Predicted throughput and how far it is off."""
    return (
        _number(predicted["throughput"]["value"] if predicted else None, 4),
        _signed(error["throughput"] if error else None),
    )


def _open_figures(measured: Mapping[str, Any] | None) -> Row:
    """Service time and backlog of an open load."""
    service, counters = ((measured and measured.get(name)) or {} for name in ("service", "counters"))
    return (_number(service.get("p99"), 3, 1e3), _number(counters.get("backlog"), 3))


def _marks(cell: Mapping[str, Any], shared: str | None = None) -> Iterator[str]:
    """Everything that is to say of a cell but why it is not predicted, where that is `shared` by all."""
    for mark in map(Mark.from_json, cell["broken"]):
        yield f"BROKEN {mark_text(mark)}"
    if cell.get("failures"):
        yield f"FAILED {len(cell['failures'])}×: {cell['failures'][-1]['message']}"
    for found in map(Finding.from_json, cell["findings"]):
        yield f"{named(found.name)} {amount(found.value, found.unit)}"
    if cell.get("refusal") and not cell["predicted"] and cell["refusal"] != shared:
        yield f"not predicted: {cell['refusal']}"


def _half(measured: Mapping[str, Any] | None) -> str:
    if not measured or measured["throughput"]["high"] is None:
        return "–"
    return f"± {figure((measured['throughput']['high'] - measured['throughput']['low']) / 2, 2)}"


def _number(value: float | None, digits: int, scale: float = 1.0) -> str:
    return "–" if value is None else value if isinstance(value, str) else figure(value * scale, digits)


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value * 100:+.1f} %"


def _share(value: float | None) -> str:
    return "–" if value is None else percent(value)


def _fit(fit: Mapping[str, Any], chosen: bool) -> str:
    parts = [
        f"{name} {_number(p['value'], 4)} [{_bound(p['low'])}, {_bound(p['high'])}]"
        for name, p in fit["parameters"].items()
    ]
    aicc = "" if fit["aicc"] is None else f"; AICc {fit['aicc']:.1f}"
    return f"{fit['law']}{' (chosen)' if chosen else ''}: {', '.join(parts)}{aicc}"


def _bound(value: float | None) -> str:
    return "no bound" if value is None else figure(value, 4)


def _legend(found: Sequence[Advice]) -> Iterator[str]:
    """Each mark and finding that occurs, what it means, and what to do."""
    yield "marks and findings"
    for item in found:
        head = f"{named(item.name)} ({item.rule}; {item.cells} cell{'' if item.cells == 1 else 's'})"
        text = f"{head}: {item.advice}" if item.advice else head
        yield _filled(text, "  ", "      ")


def _filled(text: str, first: str = "", rest: str = "") -> str:
    """The text in lines of at most `WIDTH` characters, none of which begins with a per cent sign."""
    whole = text.replace(" %", "\u00a0%")
    lines = textwrap.fill(whole, WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
    return lines.replace("\u00a0", " ")


def _quality(document: Mapping[str, Any]) -> Iterator[str]:
    """How far the figures can be trusted."""
    for sentence in trust.sentences(document["sweep"]):
        yield _filled(sentence, rest="  ")
    cells = document["cells"]
    measured = [cell for cell in cells if cell["measured"]]
    broken = sum(bool(cell["broken"]) for cell in measured)
    yield f"{len(measured)} of {len(cells)} cells measured, {broken} of them broken"
    yield from (f"warning: {warning}" for warning in document["sweep"].get("warnings") or ())


def cell_text(cell: Mapping[str, Any]) -> str:
    """One measured or predicted cell."""
    scenario = cell["scenario"]
    shown = {name: value for name, value in scenario["options"].items() if value != ""}
    rows = [
        f"{scenario['service']} on {scenario['server']} under {scenario['load']}, seed {scenario['seed']}"
    ]
    rows.append(" ".join(f"{name}={value}" for name, value in shown.items()))
    for kind in ("measured", "predicted"):
        if cell[kind]:
            rows += ["", kind, *_metrics(cell[kind])]
    rows += ["", *_marks(cell), "", *_legend(advice([cell]))] if cell["broken"] or cell["findings"] else []
    if cell.get("samples"):
        rows += ["", *_sampled(Timeline.from_json(cell["samples"]))]
    if "engine" in cell:
        rows.append(f"engine {cell['engine']['name']}: {figure(cell['engine']['jobs_per_second'])} jobs/s")
    return "\n".join(rows)


def _metrics(metrics: Mapping[str, Any]) -> Iterator[str]:
    throughput, response, service = metrics["throughput"], metrics["response"], metrics.get("service") or {}
    rows = [
        ("throughput", _number(throughput["value"], 4), _between(throughput, 1.0), "1/s"),
        ("response mean", _number(response["mean"]["value"], 4, 1e3), _between(response["mean"], 1e3), "ms"),
        *((f"response {name}", _number(response[name], 4, 1e3), "", "ms") for name in ("p50", "p90", "p99")),
        *((f"service {name}", _number(value, 4, 1e3), "", "ms") for name, value in service.items()),
        *((f"utilisation {name}", _share(value), "", "") for name, value in metrics["utilisation"].items()),
    ]
    yield from lines(rows, ("", "value", "95 %", "unit"), words=1)


def _sampled(found: Timeline) -> Iterator[str]:
    """What the server's processes took, medians over the window."""
    known = [(name, found.typical(name), unit) for name, unit in UNITS.items()]
    rows = [
        (WORDS.get(name, name), figure(value), unit) for name, value, unit in known if math.isfinite(value)
    ]
    yield from lines(rows, ("server's processes", "median", "unit"), words=1)


def _between(estimate: Mapping[str, Any], scale: float) -> str:
    if estimate["low"] is None:
        return "–"
    return f"[{figure(estimate['low'] * scale, 4)}, {figure(estimate['high'] * scale, 4)}]"
