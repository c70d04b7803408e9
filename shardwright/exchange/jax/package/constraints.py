"""Runs the step that model.py has: the backward by `jax.grad`, the collectives by XLA.

Arrays lie on the devices as the plan says, and what the model computes is asked to lie so.
"""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import operators  # which lets JAX have types of 64 bits, before anything is placed
import program

STAGE = program.STAGES[0]


def devices_of(spec):
    """The mesh of devices, row-major: the last axis joins neighbours."""
    axes = spec["mesh"] or [["rank", 1]]
    devices = np.array(jax.devices()[: spec["ranks"]])
    return Mesh(devices.reshape([size for _, size in axes]), [name for name, _ in axes])


MESH = devices_of(STAGE)
recorded = None  # texts of programs, where somebody wants them


def dtype_of(value):
    return getattr(jnp, value["dtype"])


def partition(value, *before):
    """How its dims lie on the axes; `before` stands in front of them."""
    return NamedSharding(MESH, PartitionSpec(*before, *(tuple(axes) or None for axes in value["dims"])))


def constrain(x, *dims):
    """x, whose dims lie along axes, or on all devices alike (None)."""
    return lax.with_sharding_constraint(x, NamedSharding(MESH, PartitionSpec(*dims)))


class Network:
    def __init__(self):
        self.model = importlib.import_module("model")
        self.kept = STAGE["leaves"]
        self.shardings = {name: partition(leaf) for name, leaf in self.kept.items()}
        self.batch_shardings = {name: partition(value, None) if value["shape"] else NamedSharding(MESH, PartitionSpec())
                                for name, value in STAGE["inputs"].items()}
        self.program = jax.jit(self.of_all, donate_argnums=0, in_shardings=(self.shardings, self.batch_shardings),
                               out_shardings=(self.shardings, None))
        self.is_recorded = False

    def of_all(self, leaves, batch):
        """A step: gradients and scalars are means over micro-batches."""
        leaves, gradients, scalars = dict(leaves), {}, {}

        def loss(trained, others, part):
            return self.model.forward({**others, **trained, **part})

        for m in range(program.MICRO_BATCHES):
            part = {name: x[m] if x.ndim else x for name, x in batch.items()}
            trained = {name: leaves[name] for name in program.TRAINED}
            (_, (told, states, kept)), made = jax.value_and_grad(loss, has_aux=True)(trained, leaves, part)
            leaves.update(states)
            for sums, more in ((gradients, made), (scalars, told)):
                for name, x in more.items():
                    x = x.astype(jnp.float64 if x.dtype == jnp.float64 or sums is scalars else jnp.float32)
                    x = x / program.MICRO_BATCHES
                    sums[name] = sums[name] + x if name in sums else x
        leaves.update(self.model.update(leaves, gradients, kept))
        return leaves, scalars

    def place(self, leaf_part):
        """`leaf_part(leaf, box)` gives a device its part of a leaf."""
        def placed(leaf, sharding):
            def part(index):
                return leaf_part(leaf, [s.indices(size)[:2] for s, size in zip(index, leaf["shape"])])

            return jax.make_array_from_callback(tuple(leaf["shape"]), sharding, part)

        self.leaves = {name: placed(leaf, self.shardings[name]) for name, leaf in self.kept.items()}

    def held(self):
        return [(leaf, self.leaves[name]) for name, leaf in self.kept.items()]

    def step(self, batch):
        """`batch(name)` gives the whole batch of an input."""
        parts = {}
        for name, value in STAGE["inputs"].items():
            x = np.asarray(batch(value["name"])).astype(dtype_of(value))
            x = x.reshape([program.MICRO_BATCHES, *value["shape"]]) if value["shape"] else x
            parts[name] = jax.device_put(x, self.batch_shardings[name])
        if recorded is not None and not self.is_recorded:
            lowered = self.program.lower(self.leaves, parts)
            recorded.extend([lowered.as_text(), lowered.compile().as_text()])  # the second has XLA's collectives
            self.is_recorded = True
        self.leaves, scalars = self.program(self.leaves, parts)
        return {name: float(value) for name, value in scalars.items()}


def network():
    return Network()
