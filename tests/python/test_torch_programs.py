"""Programs that torch.export has written (tests/reference/torch_export), as graphs: PyTorch's losses, gradients and states.

What is not here, PyTorch 2.4, is not needed for it: `shardwright.torch` alone needs that.
"""

import gzip
import json
import pathlib
import re

import numpy as np
import pytest
import shardwright as sw
from shardwright._aten.program import Program
from shardwright._aten.walk import Constants, Walk, counted

REFERENCE = pathlib.Path(__file__).parents[1] / "reference" / "torch_export"
OPERATORS = {row["name"]: row for row in json.loads(gzip.decompress((REFERENCE / "operators.json.gz").read_bytes()))}
NETWORKS = sorted(path.stem for path in REFERENCE.glob("*.json"))


def step_of(program, weights, ignores=True, **options):
    """A step of plain descent at rate 1, whose changes of weights are gradients, and its parameters."""
    trained = {e["name"] for e in program.inputs if e["kind"] == "parameter"}
    changed = {o["name"] for o in program.outputs if o["kind"] == "buffer" and not counted(program, o)}
    params = {name: sw.Parameter(np.array(weights[name]), name=name, is_state=name in changed)
              for name in sorted(trained | changed)}
    buffers = {name: np.array(value) for name, value in weights.items() if name not in params}
    constants = Constants()

    def loss(params, batch):
        return Walk(program, params, buffers, constants, ignores).run(batch)[0]

    return sw.train_step(loss, params, sw.optim.sgd(1.0), precision="f64", **options), params


def told(array):
    flat = np.asarray(array, np.float64).reshape(-1)
    return [float(np.linalg.norm(flat)), float((flat * np.cos(np.arange(flat.size) + 1)).sum())]


def check(said, program, weights, batch, allowed=1e-9, **options):
    step, params = step_of(program, weights, **options)
    before = {name: p.numpy().copy() for name, p in params.items()}
    assert step(batch).item() == pytest.approx(said["loss"], rel=allowed, abs=1e-12)
    for name, p in params.items():
        now = p.numpy()
        want, have = (said["states"], now) if p.is_state else (said["gradients"], before[name] - now)
        assert told(have) == pytest.approx(want[name], rel=allowed, abs=allowed * max(want[name][0], 1e-3)), name
    return step


def arrays_of(said, program):
    types = {e["name"]: e["dtype"] for e in program.inputs}
    return {name: np.array(value, types.get(name)) for name, value in said.items()}


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_computes_what_pytorch_does(name):
    row = OPERATORS[name]
    program = Program(row["program"])
    # PyTorch's own gradients of these have a constant in single precision.
    allowed = 1e-7 if name in ("hardsigmoid", "celu") else 1e-9
    check(row, program, arrays_of(row["weights"], program), arrays_of(row["batch"], program), allowed)


def network(name):
    said = json.loads((REFERENCE / f"{name}.json").read_text())
    tensors = sw.load_safetensors(str(REFERENCE / f"{name}.safetensors"))
    weights, batch = ({n.removeprefix(f"{kind}."): t.numpy() for n, t in tensors.items() if n.startswith(f"{kind}.")}
                      for kind in ("weight", "batch"))
    return said, Program(said["program"]), weights, batch


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_computes_what_pytorch_does(name):
    check(*network(name))


@pytest.mark.parametrize("name", ["nanogpt", "unet", "hf_llama", "hf_t5_encoder"])
def test_a_network_on_four_devices_computes_what_pytorch_does(name):
    check(*network(name), devices=4)


@pytest.mark.parametrize("name", ["hf_llama", "hf_gpt2", "nanogpt"])
def test_a_batch_all_of_whose_labels_are_asked_takes_fewer_operators(name):
    said, program, weights, batch = network(name)
    check(said, program, weights, batch, ignores=False, devices=2)
    assert "where" not in operators_of(name, ignores=False)


@pytest.mark.parametrize("options", [{"devices": 2, "micro_batches": 2}, {"devices": 4, "stages": 2, "micro_batches": 4}], ids=str)
def test_parts_of_the_batch_have_other_sizes_than_the_example(options):
    """Also of one row, which is special to PyTorch."""
    check(*network("nanogpt"), **options)


def operators_of(name, **options):
    program, weights, batch = network(name)[1:]
    step, _ = step_of(program, weights, **options)
    traced = step._traced(step._programs.call((batch,)), 1)
    return {re.sub(r"_\d+$", "", o).split(".")[-1] for o in traced.trace.operators}


def test_patterns_become_operators_of_ours():
    assert {"rms_norm", "rotary", "swiglu", "attention"} <= operators_of("hf_llama")
    assert not {"rsqrt", "silu", "sin", "softmax", "broadcast"} & operators_of("hf_llama")
    assert "layer_norm" in operators_of("nanogpt")
    assert "rms_norm" in operators_of("hf_t5_encoder") and "attention_weights" in operators_of("hf_t5_encoder")


def test_shared_heads_are_not_repeated():
    program, weights, batch = network("hf_llama")[1:]
    step, _ = step_of(program, weights)
    traced = step._traced(step._programs.call((batch,)), 1)
    attention = next(shapes for name, shapes in traced.trace.operators.items() if name.endswith("self_attn.attention"))
    assert attention[0][1] == 2 * attention[1][1] and len(attention) == 3  # and no mask, as it is causal


def small(**changes):
    said = {"inputs": [{"node": "p", "kind": "parameter", "name": "w", "shape": [2], "dtype": "float64"}],
            "nodes": [{"name": "s", "op": "aten.sum.default", "args": {"self": {"node": "p"}}, "shape": [], "dtype": "float64"}],
            "outputs": [{"kind": "result", "value": "s"}]}
    return said | changes


def run(said, batch=None):
    step, _ = step_of(Program(said), {"w": np.ones(2)})
    return step({"x": np.ones(2)} if batch is None else batch)


def test_what_has_no_counterpart_is_named_with_the_users_line():
    node = {"name": "s", "op": "aten.fft_fft.default", "args": {"self": {"node": "p"}}, "shape": [], "dtype": "float64",
            "line": "net.py:12: return torch.fft.fft(x)"}
    with pytest.raises(sw.ShardwrightError, match=r"aten.fft_fft.default has no counterpart here \(net.py:12: return torch.fft.fft"):
        run(small(nodes=[node]))


def test_an_argument_that_is_not_known_is_not_ignored():
    node = {"name": "s", "op": "aten.relu.default", "args": {"self": {"node": "p"}, "power": 2}, "shape": [2], "dtype": "float64"}
    with pytest.raises(sw.ShardwrightError, match="aten.relu.default is called in a way that is not known here: .*power"):
        run(small(nodes=[node], outputs=[{"kind": "result", "value": "s"}]))


@pytest.mark.parametrize("changes, message", [
    ({"nodes": [{"name": "s", "op": "aten.sum.default", "args": {"self": {"node": "q"}}}]}, "'s' reads 'q', which is not computed"),
    ({"outputs": [{"kind": "result", "value": "t"}]}, "the output 't' is not computed"),
    ({"nodes": [{"op": "aten.sum.default"}]}, "has inputs, nodes and outputs, each with its keys"),
    ({"inputs": 3}, "has inputs, nodes and outputs"),
    ({"nodes": [{"name": "s", "op": "o", "args": {}, "shape": ["__import__('os')"]}]}, "'s' has a size"),
])
def test_a_broken_program_is_refused(changes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Program(small(**changes))


def test_changed_programs_are_refused_or_run():
    """One place of a program at a time says something else."""
    generator = np.random.default_rng(1)
    text = json.dumps(OPERATORS["attention_mask"]["program"])
    row = OPERATORS["attention_mask"]
    for _ in range(200):
        changed = list(text)
        for place in generator.integers(0, len(text), 2):
            changed[place] = chr(generator.integers(32, 127))
        try:
            program = Program(json.loads("".join(changed)))
            step, _ = step_of(program, arrays_of(row["weights"], program))
            step._traced(step._programs.call((arrays_of(row["batch"], program),)), 1)
        except (ValueError, KeyError, TypeError):  # among them ShardwrightError
            pass


def test_pytorch_is_not_needed_until_it_is_asked_for():
    try:
        import torch
        is_new = tuple(int(p) for p in torch.__version__.split("+")[0].split(".")[:2]) >= (2, 4)
    except ModuleNotFoundError:
        is_new = False
    if is_new:
        pytest.skip("here is a PyTorch that has torch.export")
    with pytest.raises(ImportError, match="^shardwright.torch needs PyTorch 2.4 or newer"):
        import shardwright.torch  # noqa: F401
