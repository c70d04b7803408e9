"""A program of ATen operators as plain data.

    {"inputs":  [{"node": "x", "kind": "input", "name": "x", "shape": ["s0", 16], "dtype": "float32"},
                 {"node": "p_weight", "kind": "parameter", "name": "head.weight", ...}, ...],
     "nodes":   [{"name": "linear", "op": "aten.linear.default", "args": {"input": {"node": "x"}, ...},
                  "shape": ["s0", 10], "dtype": "float32", "module": "head", "line": "net.py:12: return self.head(x)"}, ...],
     "outputs": [{"kind": "result", "value": "loss"}, {"kind": "buffer", "name": "norm.running_mean", "value": "getitem_3"}]}

Arguments have the names of the operator's schema. Kinds of inputs: `input`, `parameter`, `buffer`, and `constant`, which has
its `value`. A size that is a word is one that changes with the batch.
"""

from __future__ import annotations

import json
import re
from typing import Any, Iterator, Mapping

import numpy as np

__all__ = ["Node", "Program", "Ref"]


_formula = re.compile(r"[A-Za-z0-9_+\-*/() ]+")


class Ref(str):
    """What another node has computed, by its name."""


class Node:
    """One call."""

    def __init__(self, said: Mapping[str, Any]):
        self.name: str = said["name"]
        self.op: str = said["op"]
        self.args: dict[str, Any] = {name: _argument(value) for name, value in said["args"].items()}
        self.shape: list | None = said.get("shape")
        self.dtype: str | None = said.get("dtype")
        self.module: str = said.get("module", "")
        self.line: str = said.get("line", "")

    def refs(self) -> Iterator[Ref]:
        for value in self.args.values():
            yield from _refs_in(value)


class Program:
    """Checked as it is read. Raises: ValueError that names what is wrong."""

    def __init__(self, said: Mapping[str, Any]):
        self.said = said
        try:
            self.inputs: list[dict[str, Any]] = [dict(entry) for entry in said["inputs"]]
            self.nodes = [Node(n) for n in said["nodes"]]
            self.outputs: list[dict[str, Any]] = [dict(entry) for entry in said["outputs"]]
            known = {entry["node"] for entry in self.inputs}
        except (KeyError, TypeError, AttributeError) as e:
            raise ValueError(f"a program of ATen operators has inputs, nodes and outputs, each with its keys: {e!r}") from None
        for entry in self.inputs:
            if isinstance(entry.get("value"), dict):
                entry["value"] = np.array(entry["value"]["data"], dtype=entry["dtype"]).reshape(entry["shape"])
        for node in self.nodes:
            for ref in node.refs():
                if ref not in known:
                    raise ValueError(f"'{node.name}' reads '{ref}', which is not computed before it")
            known.add(node.name)
        for out in self.outputs:
            if out.get("value") not in known:
                raise ValueError(f"the output '{out.get('value')}' is not computed")
        for entry in [*self.inputs, *said["nodes"]]:
            for size in entry.get("shape") or ():
                if not (isinstance(size, int) or (isinstance(size, str) and _formula.fullmatch(size))):
                    raise ValueError(f"'{entry.get('node', entry.get('name'))}' has a size {size!r}, which is no number and no "
                                     "formula of words")
        self.by_name = {node.name: node for node in self.nodes}
        self.readers: dict[str, int] = {}
        for name in [str(ref) for node in self.nodes for ref in node.refs()] + [out["value"] for out in self.outputs]:
            self.readers[name] = self.readers.get(name, 0) + 1

    @classmethod
    def load(cls, path: str) -> Program:
        with open(path, encoding="utf-8") as file:
            return cls(json.load(file))

    def to_json(self) -> str:
        """As `load` reads it."""
        def written(value: Any) -> Any:
            if isinstance(value, np.ndarray):
                return {"data": value.reshape(-1).tolist()}
            raise TypeError(f"{type(value).__name__} cannot be written")

        return json.dumps(self.said, default=written)

    @property
    def is_fixed(self) -> bool:
        """Whether it is for the sizes of its example alone."""
        return not any(isinstance(size, str) for entry in self.inputs for size in entry["shape"])


def _argument(value: Any) -> Any:
    if isinstance(value, list):
        return [_argument(v) for v in value]
    if isinstance(value, dict):
        if "node" in value:
            return Ref(value["node"])
        if "dtype" in value:
            return value["dtype"]
        if "slice" in value:
            return slice(*[_argument(v) for v in value["slice"]])
        return value
    return value


def _refs_in(value: Any) -> Iterator[Ref]:
    if isinstance(value, Ref):
        yield value
    elif isinstance(value, list):
        for v in value:
            yield from _refs_in(v)
    elif isinstance(value, slice):
        yield from _refs_in([value.start, value.stop, value.step])
