"""Runs the step that program.py has: which functions of the model in which order, and what goes between stages.

A network in one piece is one program: its functions, micro-batch by micro-batch, inside of one `jax.shard_map` over all
devices. Of several stages each function is a program on the stage's devices, and values go from stage to stage by
`jax.device_put`; devices work on side by side, since nobody waits for what is only started.
"""

import functools
import importlib
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import operators  # which lets JAX have types of 64 bits, before anything is placed
import program


def dtype_of(value):
    return getattr(jnp, value["dtype"])


def partition(value, *before):
    """How its dims lie on the axes; `before` stands in front of them."""
    return PartitionSpec(*before, *(tuple(axes) or None for axes in value["dims"]))


def devices_of(spec):
    """A stage's mesh of devices, row-major: the last axis joins neighbours."""
    devices = jax.devices()[spec["first_rank"] : spec["first_rank"] + spec["ranks"]]
    if len(devices) < spec["ranks"]:
        raise SystemExit(f"train.py: the plan is for {program.RANKS} devices but JAX has {len(jax.devices())}")
    axes = spec["mesh"] or [["rank", 1]]
    return Mesh(np.array(devices).reshape([size for _, size in axes]), [name for name, _ in axes])


def local_shape(value, mesh):
    parts = [math.prod(mesh.shape[axis] for axis in axes) for axes in value["dims"]]
    return [size // count for size, count in zip(value["shape"], parts)]


class Stage:
    """The values of a stage: leaves from step to step, others until nobody reads them."""

    def __init__(self, spec, leaves, mesh):
        self.spec, self.leaves, self.mesh = spec, leaves, mesh
        self.module = importlib.import_module(spec["module"])
        self.of_step, self.of_batch = {}, [{} for _ in range(program.MICRO_BATCHES)]

    def table(self, name, m):
        if name in self.spec["leaves"]:
            return self.leaves
        return self.of_step if name in self.spec["step_values"] else self.of_batch[m]

    def call(self, function, arguments, results, dropped, m):
        values = [self.table(name, m)[name] for name in arguments]
        for name in dropped:
            del self.table(name, m)[name]
        for name, value in zip(results, self.computed(function, arguments, results, values)):
            self.table(name, m)[name] = value

    def replace(self, phase, m):
        self.leaves.update({leaf: self.table(value, m)[value] for leaf, value, when in self.spec["updates"] if when == phase})

    def clear(self):
        for name, leaf in self.spec["leaves"].items():
            if leaf["kind"] == "accumulator":
                self.leaves[name] = self.zeros(leaf)


class OnRank(Stage):
    """Inside of shard_map: what one rank has."""

    def computed(self, function, arguments, results, values):
        return getattr(self.module, function)(*values)

    def zeros(self, leaf):
        return jnp.zeros(local_shape(leaf, self.mesh), dtype_of(leaf))


class OnDevices(Stage):
    """Outside of it: arrays on all devices of a stage. Of addends each axis that they differ along is a dim in front."""

    def __init__(self, spec, leaves, mesh):
        super().__init__(spec, leaves, mesh)
        self.programs = {}

    def addends(self, name):
        return self.spec["values"][name]["addends"]

    def sharding(self, name):
        return NamedSharding(self.mesh, self.partition(name))

    def partition(self, name):
        return partition(self.spec["values"][name], *self.addends(name))

    def program(self, function, arguments, results):
        def on_rank(*values):
            own = [v.reshape(v.shape[len(self.addends(name)) :]) for name, v in zip(arguments, values)]
            made = getattr(self.module, function)(*own)
            return tuple(v.reshape((1,) * len(self.addends(name)) + v.shape) for name, v in zip(results, made))

        specs = [tuple(map(self.partition, names)) for names in (arguments, results)]
        return jax.jit(jax.shard_map(on_rank, mesh=self.mesh, in_specs=specs[0], out_specs=specs[1], check_vma=False))

    def computed(self, function, arguments, results, values):
        if function not in self.programs:
            self.programs[function] = self.program(function, arguments, results)
            record(self.programs[function], *values)
        return self.programs[function](*values)

    def zeros(self, leaf):
        name = next(name for name, other in self.spec["leaves"].items() if other is leaf)
        shape = [self.mesh.shape[axis] for axis in self.addends(name)] + leaf["shape"]
        return jax.device_put(jnp.zeros(shape, dtype_of(leaf)), self.sharding(name))


class Tasks:
    """Goes through the lists of program.py; a list waits where another has not sent yet what it receives."""

    def __init__(self, stages, batch_part):
        self.stages, self.batch_part, self.sent, self.scalars = stages, batch_part, {}, {}

    def run(self):
        waiting = [self.listed(tasks) for tasks in program.TASKS]
        while waiting:
            waiting = [tasks for tasks in waiting if next(tasks, None) is not None]

    def listed(self, tasks):
        for act, *task in tasks:
            if act != "run":
                yield from self.act(act, *task)
                continue
            section, is_last, _, m = task
            for act, *item in program.SECTIONS[section]:
                if act == "last":  # only of the last micro-batch that runs it
                    if not is_last:
                        continue
                    act, *item = item
                yield from self.act(act, *item, m)

    def act(self, act, *what):
        *what, number, m = what
        stage = self.stages[number]
        if act == "call":
            stage.call(*what, m)
        elif act == "replace":
            stage.replace(*what, m)
        elif act == "clear":
            stage.clear()
        elif act == "fill":
            for name in stage.spec["inputs"]:
                stage.table(name, m)[name] = self.batch_part(stage, name, m)
        elif act == "hand_out":
            for value, name, when in stage.spec["scalars"]:
                if when == what[0]:
                    self.scalars.setdefault(name, []).append(stage.table(value, m)[value])
        elif act == "send":
            crossing = program.CROSSINGS[what[0]]
            name = crossing["sent"]
            self.sent[what[0], 0 if crossing["once"] else m] = stage.table(name, m)[name]
            for name in what[1]:
                del stage.table(name, m)[name]
        elif act == "receive":
            crossing = program.CROSSINGS[what[0]]
            key = what[0], 0 if crossing["once"] else m
            while key not in self.sent:
                yield True
            name = crossing["received"]
            stage.table(name, m)[name] = jax.device_put(self.sent.pop(key), stage.sharding(name))


def mean_of(values):
    return functools.reduce(jnp.add, [jnp.asarray(v, jnp.float64) for v in values]) / len(values)


recorded = None  # texts of programs, where somebody wants them


def record(compiled, *arguments):
    if recorded is not None:
        recorded.append(compiled.lower(*arguments).as_text())


class Whole:
    """A network in one piece: a program that takes leaves and a batch [micro-batches, ...], and gives leaves and scalars."""

    def __init__(self):
        self.spec = program.STAGES[0]
        self.mesh = devices_of(self.spec)
        self.kept = {name: leaf for name, leaf in self.spec["leaves"].items() if leaf["kind"] != "accumulator"}
        self.leaf_specs = {name: partition(leaf) for name, leaf in self.kept.items()}
        self.batch_specs = {name: partition(value, None) if value["shape"] else PartitionSpec()
                            for name, value in self.spec["inputs"].items()}
        names = {name for _, name, _ in self.spec["scalars"]}
        sharded = jax.shard_map(self.on_rank, mesh=self.mesh, in_specs=(self.leaf_specs, self.batch_specs),
                                out_specs=(self.leaf_specs, dict.fromkeys(names, PartitionSpec())), check_vma=False)
        self.program, self.is_recorded = jax.jit(sharded, donate_argnums=0), False

    def on_rank(self, leaves, batch):
        stage = OnRank(self.spec, dict(leaves), self.mesh)
        tasks = Tasks([stage], lambda _, name, m: batch[name][m] if batch[name].ndim else batch[name])
        tasks.run()
        return {name: stage.leaves[name] for name in leaves}, {name: mean_of(v) for name, v in tasks.scalars.items()}

    def place(self, leaf_part):
        """`leaf_part(leaf, box)` gives a device its part of a leaf."""
        self.leaves = {name: placed(leaf, NamedSharding(self.mesh, self.leaf_specs[name]), leaf_part)
                       for name, leaf in self.kept.items()}

    def held(self):
        return [(leaf, self.leaves[name]) for name, leaf in self.kept.items()]

    def step(self, batch):
        """`batch(name)` gives the whole batch of an input."""
        parts = {}
        for name, value in self.spec["inputs"].items():
            x = np.asarray(batch(value["name"])).astype(dtype_of(value))
            x = x.reshape([program.MICRO_BATCHES, *value["shape"]]) if value["shape"] else x
            parts[name] = jax.device_put(x, NamedSharding(self.mesh, self.batch_specs[name]))
        if not self.is_recorded:
            record(self.program, self.leaves, parts)
            self.is_recorded = True
        self.leaves, scalars = self.program(self.leaves, parts)
        return {name: float(value) for name, value in scalars.items()}


def placed(leaf, sharding, leaf_part):
    def part(index):
        return leaf_part(leaf, [s.indices(size)[:2] for s, size in zip(index, leaf["shape"])])

    return jax.make_array_from_callback(tuple(leaf["shape"]), sharding, part)


class Staged:
    """A network in several stages."""

    def __init__(self):
        self.stages = [OnDevices(spec, {}, devices_of(spec)) for spec in program.STAGES]

    def place(self, leaf_part):
        for stage in self.stages:
            for name, leaf in stage.spec["leaves"].items():
                if leaf["kind"] != "accumulator":
                    stage.leaves[name] = placed(leaf, stage.sharding(name), leaf_part)

    def held(self):
        return [(leaf, stage.leaves[name]) for stage in self.stages for name, leaf in stage.spec["leaves"].items()
                if leaf["kind"] != "accumulator"]

    def step(self, batch):
        def batch_part(stage, name, m):
            value = stage.spec["inputs"][name]
            x = np.asarray(batch(value["name"])).astype(dtype_of(value))
            rows = value["shape"][0] if value["shape"] else 0
            return jax.device_put(x[m * rows : (m + 1) * rows] if rows else x, stage.sharding(name))

        tasks = Tasks(self.stages, batch_part)
        tasks.run()
        for stage in self.stages:
            stage.of_step.clear()
            for values in stage.of_batch:
                values.clear()
        return {name: float(np.mean([np.asarray(v, np.float64) for v in values])) for name, values in tasks.scalars.items()}


def network():
    return Whole() if len(program.STAGES) == 1 else Staged()
