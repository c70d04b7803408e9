"""Modules of PyTorch as programs of ATen operators: plain data, which `shardwright._aten` turns into a graph."""

from __future__ import annotations

import contextlib
import inspect
import logging
import numbers
import operator
from typing import Any, Callable, Iterator, Mapping, Sequence

import torch
from torch.export import Dim
from torch.utils import _pytree as pytree

from .._aten import folding
from .._aten.conversions import conversion_table
from .._aten.program import Program
from .._errors import ShardwrightError

# Of calls: where and how memory lies, which plans decide.
_of_memory = {"device", "layout", "pin_memory", "memory_format", "non_blocking", "copy"}
# What only checks, and changes no number.
_checks = {"aten._assert_tensor_metadata.default", "aten._assert_async.msg", "aten._assert_scalar.default",
           "aten.sym_constrain_range.default", "aten.sym_constrain_range_for_size.default"}


class Batch:
    """Arguments of one call by name: tensors, and beside them what is not one."""

    def __init__(self, arguments: tuple, keywords: Mapping[str, Any], names: Sequence[str]):
        named = [(names[i] if i < len(names) else f"input{i}", a) for i, a in enumerate(arguments)]
        self._count = len(named)
        found, self._tree = pytree.tree_flatten_with_path((tuple(a for _, a in named), dict(keywords)))
        self.names: list[str] = []
        self.tensors: list[torch.Tensor] = []
        self._leaves: list[Any] = []
        for path, leaf in found:
            is_tensor = isinstance(leaf, torch.Tensor)
            self._leaves.append(None if is_tensor else leaf)
            if is_tensor:
                self.names.append(_name_of(path, [name for name, _ in named]))
                self.tensors.append(leaf)
        self._places = [i for i, (_, leaf) in enumerate(found) if isinstance(leaf, torch.Tensor)]
        if not self.tensors:
            raise ShardwrightError("the batch has no tensor; give the module's inputs, like (x, y) or {'input_ids': ids}")

    @property
    def rows(self) -> int:
        """Of the batch: the first dim of its first tensor that has one."""
        return next((t.shape[0] for t in self.tensors if t.ndim), 1)

    def rebuilt(self, tensors: Sequence[Any]) -> tuple[tuple, dict[str, Any]]:
        leaves = list(self._leaves)
        for place, tensor in zip(self._places, tensors):
            leaves[place] = tensor
        return pytree.tree_unflatten(leaves, self._tree)

    def with_rows(self, rows: int) -> list[torch.Tensor]:
        """The tensors with so many rows: the first ones, or all over again."""
        def resized(t: torch.Tensor) -> torch.Tensor:
            if not t.ndim or t.shape[0] != self.rows:
                return t
            return torch.cat([t] * -(-rows // max(self.rows, 1)))[:rows]

        return [resized(t) for t in self.tensors]


def _name_of(path: tuple, names: Sequence[str]) -> str:
    """Of `batch[0]["x"]` what the argument is called, and behind it the rest."""
    keys = [getattr(key, "key", getattr(key, "idx", getattr(key, "name", key))) for key in path]
    first = names[keys[1]] if keys[0] == 0 else keys[1]
    return ".".join(str(key) for key in [first, *keys[2:]])


def batch_of(batch: Any, called: Callable, skip: int) -> Batch:
    """A tensor, a tuple of arguments, or a dict (or a mapping such as a `BatchEncoding`) of them by name."""
    if isinstance(batch, Mapping):
        return Batch((), batch, ())
    arguments = tuple(batch) if isinstance(batch, (tuple, list)) else (batch,)
    return Batch(arguments, {}, names_of(called)[skip:])


def names_of(called: Callable) -> list[str]:
    """Of the arguments that may be given by place."""
    try:
        return [p.name for p in inspect.signature(called).parameters.values()
                if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    except (TypeError, ValueError):
        return []


class _Network(torch.nn.Module):
    """A module together with its loss, of the tensors of a batch."""

    def __init__(self, module: torch.nn.Module, loss: Callable | None, batch: Batch):
        super().__init__()
        self.module = module
        self._loss, self._batch = loss, batch

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        arguments, keywords = self._batch.rebuilt(tensors)
        if self._loss is not None:
            return _loss_in(self._loss(self.module, *arguments, **keywords), "the loss function")
        return _loss_in(self.module(*arguments, **keywords), type(self.module).__name__)


def _loss_in(result: Any, of: str) -> torch.Tensor:
    """A scalar itself, or where libraries have it."""
    found: Any = result
    if isinstance(result, Mapping) and "loss" in result:
        found = result["loss"]
    elif getattr(result, "loss", None) is not None:
        found = getattr(result, "loss", None)
    elif isinstance(result, (tuple, list)) and result:
        found = result[0]
    if isinstance(found, torch.Tensor) and found.numel() == 1:
        return found.reshape(())
    shape = list(found.shape) if isinstance(found, torch.Tensor) else type(found).__name__
    raise ShardwrightError(f"{of} returns {shape} and no loss, which is one number; say loss=lambda module, x, y: ...")


@contextlib.contextmanager
def _training(module: torch.nn.Module) -> Iterator[None]:
    """As `module.train()` has it, and afterwards as it was."""
    was = {m: m.training for m in module.modules()}
    module.train()
    try:
        yield
    finally:
        for m, training in was.items():
            m.training = training


def exported(module: torch.nn.Module, batch: Batch, loss: Callable | None, rows: int) -> Program:
    """The module and its loss in training mode, for any number of rows if it can be, else for `rows`.

    Raises: ShardwrightError where torch.export cannot follow the module.
    """
    network = _Network(module, loss, batch)
    tensors = batch.with_rows(max(rows, 2))  # 0 and 1 are special to torch
    moving = [{0: Dim.AUTO} if t.ndim and before.shape[0] == batch.rows else None
              for t, before in zip(tensors, batch.tensors)]
    with _training(module):
        try:
            made = _export(network, tensors, moving)
        except ShardwrightError:
            raise
        except Exception as e:  # of many kinds
            raise ShardwrightError(f"torch.export cannot follow {type(module).__name__}: {_first_line(e)}") from e
    return _program_of(made, module, batch.names)


def _export(network: _Network, tensors: list[torch.Tensor], moving: list) -> torch.export.ExportedProgram:
    """Functional, each operator as large as we have a conversion for it; the others as PyTorch takes them apart."""
    with _told_briefly(), _assigned_in_place():
        made = torch.export.export(network, tuple(tensors), dynamic_shapes=(tuple(moving),), strict=False)
    _detach_without_gradients(made.graph_module)
    made = made.run_decompositions({})
    known = conversion_table().keys() | folding.foldings.keys() | folding.of_shapes.keys() | _checks
    parts = torch.export.default_decompositions() if hasattr(torch.export, "default_decompositions") else {}
    for _ in range(4):  # parts may have parts
        unknown = {n.target for n in made.graph.nodes
                   if n.op == "call_function" and isinstance(n.target, torch._ops.OpOverload) and str(n.target) not in known}
        table = {op: parts[op] for op in unknown if op in parts}
        if not table:
            break
        made = made.run_decompositions(table)
    return made


@contextlib.contextmanager
def _told_briefly() -> Iterator[None]:
    """What torch.export cannot follow is told by its exception; the pages that it logs beside that are not."""
    before = logging.root.manager.disable
    logging.disable(max(before, logging.WARNING))
    try:
        yield
    finally:
        logging.disable(before)


@contextlib.contextmanager
def _assigned_in_place() -> Iterator[None]:
    """`self.buffer = value` changes the buffer: torch.export notices that in place alone, but for the outermost module."""
    usual = torch.nn.Module.__setattr__

    def assign(self: torch.nn.Module, name: str, value: Any) -> None:
        known = self.__dict__.get("_buffers", {}).get(name)
        is_buffer = isinstance(known, torch.Tensor) and isinstance(value, torch.Tensor) and known is not value
        if is_buffer and torch.compiler.is_exporting() and known.shape == value.shape:
            known.copy_(value)
        else:
            usual(self, name, value)

    torch.nn.Module.__setattr__ = assign  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.nn.Module.__setattr__ = usual  # type: ignore[method-assign]


def _detach_without_gradients(graph_module: torch.fx.GraphModule) -> None:
    """What was computed under `torch.no_grad` has no gradient; taken apart, the program would no longer say so."""
    for node in list(graph_module.graph.nodes):
        if getattr(node.target, "__name__", "") != "wrap_with_set_grad_enabled" or node.args[0]:
            continue
        for result in [n for n in node.users if n.target is operator.getitem]:
            value = result.meta.get("val")
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                with graph_module.graph.inserting_after(result):
                    cut = graph_module.graph.call_function(torch.ops.aten.detach.default, (result,))
                cut.meta = dict(result.meta)
                result.replace_all_uses_with(cut, delete_user_cb=lambda user, cut=cut: user is not cut)
    graph_module.recompile()


def _first_line(e: Exception) -> str:
    lines = [line.strip() for line in str(e).splitlines() if line.strip()]
    return f"{type(e).__name__}: {lines[0]}" if lines else type(e).__name__


def first_names(module: torch.nn.Module) -> dict[str, str]:
    """Of every name of a parameter or buffer the first one of the same tensor."""
    first: dict[int, str] = {}
    out: dict[str, str] = {}
    for named in (module.named_parameters(remove_duplicate=False), module.named_buffers(remove_duplicate=False)):
        for name, tensor in named:
            out[name] = first.setdefault(id(tensor), name)
    return out


def _program_of(made: torch.export.ExportedProgram, module: torch.nn.Module, names: Sequence[str]) -> Program:
    first = first_names(module)
    inputs: list[dict[str, Any]] = []
    places = {n.name: n for n in made.graph.nodes if n.op == "placeholder"}
    given = iter(names)
    for spec in made.graph_signature.input_specs:
        kind = spec.kind.name
        value = places[spec.arg.name].meta["val"]
        entry: dict[str, Any] = {"node": spec.arg.name, "shape": _shape_of(value),
                                 "dtype": _name_of_dtype(value.dtype)}
        if kind == "USER_INPUT":
            entry |= {"kind": "input", "name": next(given)}
        elif kind in ("PARAMETER", "BUFFER"):
            name = first[spec.target.removeprefix("module.")]
            entry |= {"kind": kind.lower(), "name": name}
        else:
            constant = made.constants[spec.target]
            entry |= {"kind": "constant", "name": spec.target, "value": constant.detach().cpu().numpy()}
        inputs.append(entry)
    outputs: list[dict[str, Any]] = []
    for out in made.graph_signature.output_specs:
        if out.kind.name == "USER_OUTPUT":
            outputs.append({"kind": "result", "value": out.arg.name})
        elif out.kind.name == "BUFFER_MUTATION":
            outputs.append({"kind": "buffer", "name": first[out.target.removeprefix("module.")], "value": out.arg.name})
        else:
            raise ShardwrightError(f"the module changes its input '{out.target}' in place; give it a clone")
    nodes = [_node_of(n) for n in made.graph.nodes if n.op not in ("placeholder", "output")]
    return Program({"inputs": inputs, "nodes": [n for n in nodes if n["op"] not in _checks], "outputs": outputs})


def _shape_of(value: Any) -> list[int | str]:
    return [s if isinstance(s, int) else str(s) for s in value.shape]


def _name_of_dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _node_of(node: torch.fx.Node) -> dict[str, Any]:
    line = _line_of(node.meta.get("stack_trace") or "")
    if node.op != "call_function":
        raise ShardwrightError(f"'{node.name}' is a {node.op} of {node.target}, which has no counterpart{line and ' (' + line + ')'}")
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        op, arguments = str(target), _by_schema(node, target)
    elif isinstance(target, torch._ops.HigherOrderOperator):
        raise ShardwrightError(f"'{target.name()}' has no counterpart: {line or 'a part of the module'}; "
                               "what only runs under conditions, and other parts with rules of their own, cannot be traced")
    else:
        module = "operator" if target.__module__ == "_operator" else target.__module__.split(".")[0]
        op, arguments = f"{module}.{target.__name__}", {str(i): a for i, a in enumerate(node.args)}
    out: dict[str, Any] = {"name": node.name, "op": op, "args": {k: _plain(v) for k, v in arguments.items()}}
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        out |= {"shape": _shape_of(value), "dtype": _name_of_dtype(value.dtype)}
    if owner := _module_of(node):
        out["module"] = owner
    if line:
        out["line"] = line
    return out


def _by_schema(node: torch.fx.Node, target: torch._ops.OpOverload) -> dict[str, Any]:
    """Arguments by the names of the operator's schema; what says where memory lies is left out."""
    out: dict[str, Any] = {}
    for i, argument in enumerate(target._schema.arguments):
        if i < len(node.args):
            out[argument.name] = node.args[i]
        elif argument.name in node.kwargs:
            out[argument.name] = node.kwargs[argument.name]
    return {name: value for name, value in out.items() if name not in _of_memory and value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, torch.fx.Node):
        return {"node": value.name}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, slice):
        return {"slice": [_plain(value.start), _plain(value.stop), _plain(value.step)]}
    if isinstance(value, torch.dtype):
        return {"dtype": _name_of_dtype(value)}
    if value is None or isinstance(value, (bool, str, numbers.Real)):
        return value
    return {"other": str(value)}


def _module_of(node: torch.fx.Node) -> str:
    """The path of the innermost module that the node is part of."""
    stack = node.meta.get("nn_module_stack") or {}
    paths = [path for path, _ in stack.values()]
    return paths[-1].removeprefix("L['self'].").removeprefix("module").removeprefix(".") if paths else ""


def _line_of(trace: str) -> str:
    """The user's innermost line: not one of PyTorch's own layers, if there is another."""
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    found = [(lines[i], lines[i + 1] if i + 1 < len(lines) else "") for i in range(len(lines))
             if lines[i].startswith("File ")]
    own = [entry for entry in found if "/torch/" not in entry[0]]
    if not (own or found):
        return ""
    place, code = (own or found)[-1]
    path, _, rest = place.removeprefix('File "').partition('", line ')
    return f"{path}:{rest.partition(',')[0]}: {code}" if not code.startswith("File ") else f"{path}:{rest.partition(',')[0]}"
