"""Functions of `mint` that MindSpore's CPU has no kernels for: beside PyTorch, whose names and arguments they have."""

import ast
import json
import re
import sys
import zlib

import numpy as np
import pytest
from mindspore_fixtures import root, settings  # noqa: F401

import mindspore as ms
from mindspore import Tensor, mint

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("settings")
FOLDER = root / "tests" / "outside" / "mindspore"
sys.path.insert(0, str(FOLDER))
import side  # noqa: E402

# Whose names are not PyTorch's, or not those of the PyTorch of Debian.
LEFT_OUT = re.compile(r"^mint\.(relu|true_divide|masked_fill|equal|nn\.functional\.(batch_norm|celu|softsign|tanhshrink|logsigmoid)|optim|exp2\b.*Int|"
                      r"ones\(2|zeros\(2|nn\.(Softsign|Tanhshrink|LogSigmoid)|(add|sub)\(.*alpha)")


def _programs():
    answers = json.loads((root / "tests" / "reference" / "mindspore210" / "programs.json").read_text())
    return [p for p, found in answers.items() if p.startswith("mint.") and "error" in found and not LEFT_OUT.match(p)]


def _text(value):
    """Whole numbers as PyTorch has them, and its names."""
    return (value.replace("mint.nn.functional.", "torch.nn.functional.").replace("mint.nn.", "torch.nn.").replace("mint.", "torch.")
            .replace("set_train(False)", "eval()").replace("concat(", "cat(").replace("ms.int64", "torch.int64")
            .replace("Tensor(np.eye(3), ms.float32)", "torch.eye(3)").replace("Tensor([0.0, 1.0, 2.0], ms.float32)", "torch.tensor([0.0, 1.0, 2.0])")
            .replace("Tensor([[0, 2], [1, 0]], torch.int64)", "torch.tensor([[0, 2], [1, 0]])"))


def _parts(program):
    parts = side._Parts()
    body = ast.fix_missing_locations(parts.visit(ast.parse(program, mode="eval")))
    generator = np.random.default_rng(zlib.crc32(program.encode()))
    return body, parts, [side.drawn(kind, shape, generator) for kind, shape in parts.draws]


def _results(value):
    return [x for x in side.leaves(tuple(value) if isinstance(value, (tuple, list)) or type(value).__module__ == "torch.return_types"
                                   else value)]


def _made(parts, names, program):
    made = names["made_"] = []
    for node in parts.made:
        made.append(eval(compile(ast.fix_missing_locations(ast.Expression(node)), program, "eval"), names))
    return made


def _by_torch(program):
    body, parts, values = _parts(_text(program))
    values = _parts(program)[2]
    tensors = [torch.tensor(v, requires_grad=v.dtype.kind == "f") for v in values]
    names = {"torch": torch, "np": np, "drawn_": tensors}
    weights = [p for m in _made(parts, names, program) if isinstance(m, torch.nn.Module) for p in m.parameters()]
    with torch.no_grad():
        for i, p in enumerate(weights):
            p.copy_(torch.tensor(np.random.RandomState(i).randn(*p.shape)))
    out = _results(eval(compile(body, program, "eval"), names))
    total = sum((t * torch.cos(torch.arange(t.numel()) + 0.5).reshape(t.shape)).sum() for t in out
                if isinstance(t, torch.Tensor) and t.is_floating_point())
    if isinstance(total, torch.Tensor) and total.requires_grad:
        total.backward()
    return ([t.detach().numpy() if isinstance(t, torch.Tensor) else np.asarray(t) for t in out],
            [t.grad.numpy() for t in [*tensors, *weights] if t.grad is not None])


def _by_us(program):
    body, parts, values = _parts(program)
    names = {"mint": mint, "ms": ms, "np": np, "Tensor": Tensor, "drawn_": [Tensor(v) for v in values]}
    weights = [p for m in _made(parts, names, program) if isinstance(m, ms.nn.Cell) for p in m.trainable_params()]
    for i, p in enumerate(weights):
        p.set_data(Tensor(np.random.RandomState(i).randn(*p.shape).astype(np.float32)))
    code = compile(body, program, "eval")
    of = [i for i, v in enumerate(values) if v.dtype.kind == "f"]

    def loss(*floats):
        tensors = [Tensor(v) for v in values]
        for place, tensor in zip(of, floats):
            tensors[place] = tensor
        total = Tensor(0.0)
        for x in _results(eval(code, {**names, "drawn_": tensors})):
            if isinstance(x, Tensor) and "Float" in str(x.dtype):
                total = total + (x * Tensor(np.cos(np.arange(x.size) + 0.5).reshape(x.shape).astype(np.float32))).sum()
        return total

    out = [x.asnumpy() if isinstance(x, Tensor) else np.asarray(x) for x in _results(eval(code, names))]
    if not of and not weights:
        return out, []
    found = ms.grad(loss, tuple(range(len(of))) if of else None, weights or None)(*[Tensor(values[i]) for i in of])
    return out, [g.asnumpy() for g in side.leaves(found)]


@pytest.mark.parametrize("program", _programs())
def test_mint_does_as_torch_does(program):
    wanted, wanted_grads = _by_torch(program)
    out, grads = _by_us(program)
    assert len(out) == len(wanted)
    for a, b in zip(out, wanted):
        assert a.shape == b.shape and a.dtype == b.dtype, (a.shape, b.shape, a.dtype, b.dtype)
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)
    given = [g for g in grads if g.any()]
    for a, b in zip(given, [g for g in wanted_grads if g.any()], strict=True):
        np.testing.assert_allclose(a, b, rtol=5e-5, atol=5e-5)
