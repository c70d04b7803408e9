"""Plans for people: how a step is split over devices and what it takes."""

from __future__ import annotations

from html import escape
from typing import Any, Sequence

from . import _core
from .optim import Optimizer, sgd

__all__ = ["Plan", "Spec", "plan"]


class Spec:
    """Shape and type of an array that need not exist: what `plan` of a step may be asked about."""

    def __init__(self, shape: Sequence[int], dtype: str = "float32"):
        self.shape, self.dtype = tuple(shape), dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        return f"Spec({list(self.shape)}, '{self.dtype}')"


class Plan:
    """How a step is split over devices, and what it takes. In a notebook it shows itself as a table."""

    def __init__(self, program: _core.Program | _core.PlannedStep):
        self.json: str = program.plan_json()
        """As `shardwright train --plan` takes it."""
        self.table: str = program.explain()
        self.step_seconds: float = program.step_seconds
        """Predicted for the cluster that it is for."""
        self.memory_bytes: int = program.arena_bytes
        """Of the device that takes most."""
        self.memory: dict[str, int] = program.memory
        """What the bytes are for, by kind."""
        self.collectives: dict[str, int] = program.collectives
        """How many of each kind a step runs."""

    def save(self, path: str) -> None:
        """Writes the plan, or with a path that ends with .html a page for people."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(_page(self) if path.endswith(".html") else self.json)

    def __repr__(self) -> str:
        return self.table

    def _repr_html_(self) -> str:
        return _html_of(self.table)


def plan(model: str, optimizer: Optimizer | None = None, *, devices: int = 1, **options: Any) -> Plan:
    """How a named model (or a graph or ONNX file) would be trained; memory is taken for none of it.

    options: as those of `train_step`, with `cluster="h100:64"` and the like for machines that are elsewhere. Of a
    function: `train_step(...).plan(*batch)`.
    """
    chosen = optimizer or sgd()
    return Plan(_core.PlannedStep(model, chosen.name, chosen.settings, chosen.clip_norm,
                                  options_text({"devices": devices, **options})))


def options_text(options: dict[str, Any]) -> dict[str, str]:
    """As the table of settings reads them."""
    out = {}
    for name, value in options.items():
        if value is not None:
            out[name] = ("1" if value else "0") if isinstance(value, bool) else str(value)
    return out


def _html_of(table: str) -> str:
    """The lines of the table that stand in columns as rows, the others around it."""
    lines = table.rstrip().split("\n")
    first = next((i for i, line in enumerate(lines) if line.startswith("  ")), len(lines))
    end = next((i for i in range(first, len(lines)) if not lines[i].startswith("  ")), len(lines))
    edges = [i for i, c in enumerate(lines[first]) if c != " " and lines[first][i - 2:i] == "  "] if first < end else []
    edges = edges[:3]  # name, strategy, parts: what follows is not aligned to the left
    rows: list[str] = []
    for line in lines[first:end]:
        cells = [line[a:b].strip() for a, b in zip(edges, edges[1:] + [len(line)])]
        kind = "th" if not rows else "td"
        rows.append("<tr>" + "".join(f"<{kind} style='text-align:left'>{escape(c)}</{kind}>" for c in cells) + "</tr>")
    around = "<br>".join(escape(line) for line in lines[:first]), "<br>".join(escape(line) for line in lines[end:])
    return f"<div>{around[0]}</div><table>{''.join(rows)}</table><div>{around[1]}</div>"


_style = """body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em }
table { border-collapse: collapse; margin: 1em 0 } th, td { padding: .2em .8em; border-bottom: 1px solid #ddd }
td { font-family: monospace } .bar { background: #48c; height: 1em; min-width: 1px } pre { overflow: auto }"""


def _page(shown: Plan) -> str:
    """A page that needs nothing beside itself."""
    most = max(shown.memory.values(), default=0) or 1
    bars = "".join(f"<tr><td>{escape(kind)}</td><td style='text-align:right'>{size / 2**20:.2f} MiB</td>"
                   f"<td style='width:30em'><div class='bar' style='width:{100 * size / most:.1f}%'></div></td></tr>"
                   for kind, size in shown.memory.items() if size)
    runs = ", ".join(f"{count} {escape(kind)}" for kind, count in shown.collectives.items()) or "none"
    return (f"<!doctype html><meta charset='utf-8'><title>Plan</title><style>{_style}</style>"
            f"<h1>{shown.step_seconds * 1e3:.3f} ms a step, {shown.memory_bytes / 2**20:.1f} MiB on the fullest device</h1>"
            f"{_html_of(shown.table)}<h2>Memory</h2><table>{bars}</table><h2>Collectives of a step</h2><p>{runs}</p>"
            f"<details><summary>The plan as a file</summary><pre>{escape(shown.json)}</pre></details>\n")
