"""Cells: modules that hold parameters, cells and primitives, and name them after the attributes that hold them."""

from __future__ import annotations

from typing import Any, Iterator

from .. import _calls, _regions, context
from .._compile import Unit
from .._trace import current
from ..common import dtype as mstype
from ..common.parameter import Parameter, ParameterTuple
from ..common.tensor import Tensor
from ..ops.primitive import Primitive, cast


class Cell:
    """Subclasses define `construct(*inputs)`; calling a cell calls it, in graph mode as a program."""

    is_fed = False  # its tensors are a batch that ranks read copies of

    def __new__(cls, *args, **kwargs):
        # Attributes may be assigned before __init__ runs.
        self = super().__new__(cls)
        for name, value in (("_params", {}), ("_cells", {}), ("_cell_name", ""), ("auto_prefix", True),
                            ("training", False), ("_recompute", None), ("_region", None), ("_stage", None),
                            ("_unit", None), ("_to_type", None), ("_gives_type", None)):
            object.__setattr__(self, name, value)
        return self

    def __init__(self, auto_prefix: bool = True, flags: dict | None = None):
        object.__setattr__(self, "auto_prefix", auto_prefix)

    def construct(self, *inputs, **kwargs):
        raise AttributeError(f"cell {type(self).__name__} has no construct")

    # ---- attributes ----

    def __setattr__(self, name: str, value: Any) -> None:
        held = self._params.get(name)
        if held is not None and not isinstance(value, Parameter):
            if isinstance(value, Tensor):
                held.set_data(value)
                return
            if value is not None:
                raise TypeError(f"'{name}' of {type(self).__name__} is a parameter and takes a Tensor or a Parameter, "
                                f"not {value!r}")
        self._params.pop(name, None)
        self._cells.pop(name, None)
        if isinstance(value, Parameter):
            self.insert_param_to_cell(name, value)
        elif isinstance(value, ParameterTuple):
            self._hold_all(value)
        elif isinstance(value, Cell):
            self._hold(name, value)
        elif isinstance(value, Primitive) and not value._instance_name:
            value.set_prim_instance_name(name)
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        self._params.pop(name, None)
        self._cells.pop(name, None)
        object.__delattr__(self, name)

    def _hold(self, name: str, cell: Cell) -> None:
        # A region of a cell that is here already, `self.b2 = self.b1.shard(..)`, keeps its names.
        is_known = cell._region is not None and any(own is cell for own in self._cells.values())
        self._cells[name] = cell
        if self.auto_prefix and not is_known:
            cell.update_parameters_name(name + ".")
            cell._take_name(name)

    def _hold_all(self, parameters: ParameterTuple) -> None:
        """Each by its own name. Raises: ValueError if two have one, or one is that of what the cell holds already."""
        for parameter in parameters:
            if not parameter.has_name:
                parameter.name = f"Parameter${sum(name.startswith('Parameter$') for name in self._params)}"
            if self._params.setdefault(parameter.name, parameter) is not parameter:
                raise ValueError(f"two parameters of a cell are called '{parameter.name}'; give each its own name")

    def _take_name(self, name: str) -> None:
        object.__setattr__(self, "_cell_name", name)

    def insert_param_to_cell(self, param_name: str, param: Parameter, check_name_contain_dot: bool = True) -> None:
        """A parameter without a name takes this one."""
        if not param.has_name:
            param.name = param_name
        self._params[param_name] = param
        object.__setattr__(self, param_name, param)

    def insert_child_to_cell(self, child_name: str, child_cell: Cell) -> None:
        setattr(self, child_name, child_cell)

    def update_parameters_name(self, prefix: str = "", recurse: bool = True) -> None:
        """Calls its parameters by the prefix and where they lie in it, whatever they were called."""
        for path, parameter in self._paths(expand=recurse):
            parameter.name = prefix + path

    # ---- what it holds ----

    def cells_and_names(self, cells: set | None = None, name_prefix: str = "") -> Iterator[tuple[str, Cell]]:
        """Itself and all cells inside, with their paths; each once."""
        seen = set() if cells is None else cells
        if id(self) in seen:
            return
        seen.add(id(self))
        yield name_prefix, self
        for name, cell in self._cells.items():
            if cell is not None:
                yield from cell.cells_and_names(seen, f"{name_prefix}.{name}" if name_prefix else name)

    def name_cells(self) -> dict[str, Cell]:
        return {name: cell for name, cell in self._cells.items() if cell is not None}

    def cells(self):
        return self.name_cells().values()

    def parameters_and_names(self, name_prefix: str = "", expand: bool = True) -> Iterator[tuple[str, Parameter]]:
        """Own parameters in the order of assignment, then those of cells inside; shared ones once.

        Raises: ValueError if two of them have one name.
        """
        paths: dict[str, str] = {}
        for path, parameter in self._paths(name_prefix, expand):
            if parameter.name in paths:
                raise ValueError(f"two parameters are called '{parameter.name}': {paths[parameter.name]} and "
                                 f"{path}; give each its own name")
            paths[parameter.name] = path
            yield parameter.name, parameter

    def _paths(self, name_prefix: str = "", expand: bool = True) -> Iterator[tuple[str, Parameter]]:
        seen: set[int] = set()
        for path, cell in self.cells_and_names(name_prefix=name_prefix) if expand else [(name_prefix, self)]:
            for attribute, parameter in cell._params.items():
                if id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield f"{path}.{attribute}" if path else attribute, parameter

    def get_parameters(self, expand: bool = True) -> Iterator[Parameter]:
        """The same without names, whatever they are."""
        seen: set[int] = set()
        for _, cell in self.cells_and_names() if expand else [("", self)]:
            for parameter in cell._params.values():
                if id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield parameter

    def trainable_params(self, recurse: bool = True) -> list[Parameter]:
        return [p for _, p in self.parameters_and_names(expand=recurse) if p.requires_grad]

    def untrainable_params(self, recurse: bool = True) -> list[Parameter]:
        return [p for _, p in self.parameters_and_names(expand=recurse) if not p.requires_grad]

    def parameters_dict(self, recurse: bool = True) -> dict[str, Parameter]:
        return dict(self.parameters_and_names(expand=recurse))

    def init_parameters_data(self, auto_parallel_mode: bool = False) -> dict:
        return {p: p.init_data() for p in self.get_parameters()}

    # ---- what is said of it ----

    def set_train(self, mode: bool = True) -> Cell:
        for _, cell in self.cells_and_names():
            object.__setattr__(cell, "training", bool(mode))
        return self

    def set_grad(self, requires_grad: bool = True) -> Cell:
        return self

    def set_comm_fusion(self, fusion_type: int, recurse: bool = True) -> Cell:
        """Collectives of parameters of one number run as one; those of 0 each alone."""
        for parameter in self.trainable_params(recurse):
            parameter.comm_fusion = fusion_type
        return self

    @property
    def pipeline_stage(self) -> int | None:
        return self._stage

    @pipeline_stage.setter
    def pipeline_stage(self, stage: int) -> None:
        if not isinstance(stage, int) or isinstance(stage, bool):
            raise TypeError(f"pipeline_stage is a whole number, not {stage!r}")
        if stage < 0:
            raise ValueError(f"pipeline_stage is 0 or more, not {stage}")
        object.__setattr__(self, "_stage", stage)

    def recompute(self, **settings) -> None:
        """What is made inside is not kept for the backward but made again."""
        known = ("mp_comm_recompute", "parallel_optimizer_comm_recompute", "recompute_slice_activation")
        for name in settings:
            if name not in known:
                raise ValueError(f"recompute setting '{name}' is unknown; there are {', '.join(known)}")
        object.__setattr__(self, "_recompute", settings)
        context.touch()

    def shard(self, in_strategy, out_strategy=None, parameter_plan=None, device: str = "Ascend",
              level: int = 0) -> Cell:
        """How inputs and results lie at its edge, and parameters inside; the rest is found. Returns itself."""
        object.__setattr__(self, "_region", _regions.Region(in_strategy, out_strategy, parameter_plan))
        if current() is None:
            context.touch()
        return self

    def to_float(self, dst_type) -> Cell:
        """Inputs and parameters are cast to this type, here and in the cells inside. Parameters stay as they are."""
        for _, cell in self.cells_and_names():
            object.__setattr__(cell, "_to_type", mstype.type_of(dst_type).name)
        return self

    def to_float_and_back(self, dst_type) -> Cell:
        """The same for a cell whose result is one tensor, which it gives as f32."""
        object.__setattr__(self, "_gives_type", "float32")
        return self.to_float(dst_type)

    def place(self, role: str, rank_id: int) -> Cell:
        context.tell("mindspore: placement of cells on single processes has no effect")
        return self

    def add_flags(self, **flags) -> Cell:
        for name, value in flags.items():
            object.__setattr__(self, name, value)
        return self

    add_flags_recursive = add_flags

    def set_auto_parallel(self) -> None:
        """Whether it is split is what the context says."""

    def set_param_ps(self, recurse: bool = True, init_in_server: bool = False) -> None:
        """There is no parameter server: its parameters stay where they are."""

    def offload(self, backward_prefetch: str = "Auto") -> None:
        """Activations of the whole network lie in memory of the host until the backward, where the device is none."""
        context.offload_activations()

    def set_inputs(self, *inputs, **kwargs) -> None:
        """Shapes are those of each call."""

    def set_jit_config(self, jit_config) -> None:
        """Settings of another compiler."""

    def _get_attr_from_cell(self, network: Cell) -> None:
        """The same, of a cell that this one wraps."""

    def extend_repr(self) -> str:
        return ""

    def __repr__(self) -> str:
        lines = [f"({name}): " + repr(cell).replace("\n", "\n  ") for name, cell in self.name_cells().items()]
        extra = self.extend_repr()
        inner = "".join(f"\n  {line}" for line in ([extra] if extra and lines else []) + lines)
        return f"{type(self).__name__}<{inner or extra}" + ("\n  >" if lines else ">")

    # ---- calls ----

    def __call__(self, *args, **kwargs):
        if current() or not (context.is_graph_mode() or self.is_fed or self._region):
            return self._run(*args, **kwargs)
        return self._own_unit()(*args, **kwargs)

    def compile(self, *args, **kwargs):
        """Traces and plans it for these inputs, without running it. Returns the core's program."""
        return self._own_unit().compile(*args, **kwargs)

    def compile_and_run(self, *args, **kwargs):
        """The old name of a call in graph mode."""
        return self._own_unit()(*args, **kwargs)

    def _own_unit(self) -> Unit:
        if self._unit is None:
            object.__setattr__(self, "_unit", Unit(self._run, self.is_fed, self.construct))
        return self._unit

    def _run(self, *args, **kwargs):
        tracing = current()
        if tracing:
            tracing.modes[id(self)] = (self, self.training)
        name = tracing.name_of(self, self._cell_name, _calls.path()) if tracing else self._cell_name
        with _calls.inside(name), _calls.computing_in(self._to_type):
            if tracing and self._stage is not None and _calls.path():
                tracing.note_stage(_calls.path(), self._stage)
            if self._to_type:
                args = tuple(cast(a, self._to_type) for a in args)
            function = self.construct
            if tracing and self._recompute is not None:
                function = self._recomputed
            if tracing and self._region and context.is_auto():
                result = self._region(function, args, kwargs, _calls.path() or type(self).__name__, self)
            else:
                result = function(*args, **kwargs)
        return cast(result, self._gives_type) if self._gives_type else result

    def _recomputed(self, *args, **kwargs):
        return _regions.recomputed(self.construct, args, kwargs, _calls.path() or type(self).__name__, self._recompute)


class SequentialCell(Cell):
    """One after the other."""

    def __init__(self, *cells):
        super().__init__()
        first = cells[0] if len(cells) == 1 else cells
        listed = first if isinstance(first, (list, tuple)) else cells
        for name, cell in first.items() if isinstance(first, dict) else enumerate(listed):
            self.insert_child_to_cell(str(name), cell)

    def construct(self, x):
        for cell in self._cells.values():
            x = cell(x)
        return x

    def append(self, cell: Cell) -> SequentialCell:
        self.insert_child_to_cell(str(len(self._cells)), cell)
        return self

    def __len__(self) -> int:
        return len(self._cells)

    def __iter__(self):
        return iter(self._cells.values())

    def __getitem__(self, index):
        cells = list(self._cells.values())
        return SequentialCell(cells[index]) if isinstance(index, slice) else cells[index]


class CellList(SequentialCell):
    """Cells by number, which are called one by one by whoever holds them; their names begin with the list's."""

    def __init__(self, *args, **kwargs):
        super().__init__(*(args or ([],)))
        object.__setattr__(self, "auto_prefix", kwargs.get("auto_prefix", True))

    def _hold(self, name: str, cell: Cell) -> None:
        super()._hold(name, cell)
        if self._cell_name:
            cell._take_name(f"{self._cell_name}.{name}")

    def _take_name(self, name: str) -> None:
        super()._take_name(name)
        for child_name, cell in self._cells.items():
            cell._take_name(f"{name}.{child_name}")

    def construct(self, *inputs):
        raise NotImplementedError("a CellList is no function: call the cells in it")

    def extend(self, cells) -> CellList:
        for cell in cells:
            self.append(cell)
        return self
