"""What tensors do as methods, gradients of functions, and names that there are not."""

import doctest
import importlib
import pkgutil

import numpy as np
import pytest

import shardwright as sw

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 7 - 1.5

METHODS = {
    "sum": lambda x: x.sum(), "sum of a dim": lambda x: x.sum(1), "sum kept": lambda x: x.sum(axis=(0, 2), keepdims=True),
    "mean": lambda x: x.mean(axis=-1), "max": lambda x: x.max(axis=0), "argmax": lambda x: x.argmax(2), "argmax of all": lambda x: x.argmax(),
    "reshape by numpy's": lambda x: x.reshape(np.int64(4), np.int32(6)), "astype": lambda x: x.astype(np.float64),
    "reshape": lambda x: x.reshape(6, -1), "reshape by a tuple": lambda x: x.reshape((4, 6)), "T": lambda x: x.T,
    "transpose": lambda x: x.transpose(2, 0, 1), "transpose all": lambda x: x.transpose(), "flatten": lambda x: x.flatten(),
    "slice": lambda x: x[1:, ::2, -1], "squeeze": lambda x: x[:1].squeeze(0), "item": lambda x: x[0, -1],
}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("is_traced", [False, True])
def test_a_method_is_numpys(name, is_traced):
    method = METHODS[name]
    found = sw.jit(method)(X) if is_traced else method(sw.Tensor(X))
    np.testing.assert_allclose(np.asarray(found), method(X), rtol=1e-6)


@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "abs", "square"])
def test_a_function_as_a_method(name):
    x = np.abs(X) + 0.5
    np.testing.assert_allclose(getattr(sw.Tensor(x), name)().numpy(), getattr(np, name)(x), rtol=1e-6)
    np.testing.assert_array_equal(sw.Tensor(x).astype("int32").numpy(), x.astype(np.int32))


def test_numpys_functions_take_tensors():
    x = sw.Tensor(X)
    for function in (np.sum, np.mean, np.max, np.argmax, np.transpose, np.squeeze, np.ravel):
        np.testing.assert_allclose(np.asarray(function(x)), function(X), rtol=1e-6)
    np.testing.assert_allclose(np.mean(x, axis=1, dtype=np.float64), np.mean(X, axis=1, dtype=np.float64))
    np.testing.assert_allclose(np.reshape(x, (6, 4)), X.reshape(6, 4))


def loss(tree, x):
    hidden = (x @ tree["up"]).exp()
    return ((hidden @ tree["down"][0]) ** 2).mean() + tree["up"].sum() * 0.1


def tree_of(seed):
    random = np.random.default_rng(seed)
    return {"up": random.normal(size=(4, 6)) * 0.3, "down": [random.normal(size=(6, 2)), random.normal(size=3)]}


@pytest.mark.parametrize("devices", [1, 4])
def test_gradients_are_differences(devices):
    tree, x = tree_of(1), np.random.default_rng(2).normal(size=(8, 4))
    value, (of_tree, of_x) = sw.value_and_grad(loss, argnums=(0, 1), precision="f64", devices=devices)(tree, x)
    np.testing.assert_array_equal(of_tree["down"][1].numpy(), np.zeros(3))  # what the loss does not read
    eager = lambda: loss({k: [sw.Tensor(a) for a in v] if isinstance(v, list) else sw.Tensor(v) for k, v in tree.items()},
                         sw.Tensor(x)).item()  # noqa: E731
    assert abs(value.item() - eager()) < 1e-9
    step = 1e-6
    for array, gradient in ((tree["up"], of_tree["up"]), (tree["down"][0], of_tree["down"][0]), (x, of_x)):
        for at in [(0, 0), (1, 1), (3, 0)]:
            kept = array[at]
            array[at] = kept + step
            above = eager()
            array[at] = kept - step
            below = eager()
            array[at] = kept
            np.testing.assert_allclose(gradient.numpy()[at], (above - below) / (2 * step), rtol=2e-5, atol=1e-8)


def test_gradients_alone_and_beside():
    w = np.array([1.0, 2.0], np.float32)
    square = lambda w: (w * w).sum()  # noqa: E731
    np.testing.assert_array_equal(sw.grad(square)(w).numpy(), 2 * w)
    gradient, aux = sw.grad(lambda w: (square(w), {"w": w + 1}), has_aux=True)(w)
    np.testing.assert_array_equal(gradient.numpy(), 2 * w)
    np.testing.assert_array_equal(aux["w"].numpy(), w + 1)
    with pytest.raises(ValueError, match="should return a scalar"):
        sw.grad(lambda w: w * w)(w)
    with pytest.raises(ValueError, match="argnums 1: .* was called with 1 arguments"):
        sw.grad(square, argnums=1)(w)


@pytest.mark.parametrize("devices", [1, 2])
def test_keyword_arguments_are_passed_on(devices):
    traces = []

    def weighted(w, *, x, power=1, of={}):  # noqa: B006
        traces.append(power)
        y = w * x if power == 1 else w * w * x
        return (y * of["scale"]).sum() if of else y.sum()

    w, x = np.array([1.0, 2.0], np.float32), np.array([3.0, 5.0], np.float32)
    both = sw.value_and_grad(weighted, devices=devices)
    value, gradient = both(w, x=x)
    assert value.item() == 13
    np.testing.assert_array_equal(gradient.numpy(), x)
    np.testing.assert_array_equal(both(w, x=2 * x)[1].numpy(), 2 * x)
    assert len(traces) == 1  # an array by keyword is an input, too
    np.testing.assert_array_equal(both(w, x=x, power=2)[1].numpy(), 2 * w * x)
    np.testing.assert_array_equal(both(w, x=x, power=1, of={"scale": w})[1].numpy(), w * x)
    assert set(traces) == {1, 2} and len(traces) == 3
    np.testing.assert_array_equal(sw.grad(weighted, devices=devices)(w, x=x, power=2).numpy(), 2 * w * x)
    with pytest.raises(ValueError, match="argnums 1: weighted was called with 1 arguments by place"):
        sw.grad(weighted, argnums=1)(w, x=x)
    with pytest.raises(TypeError, match="missing .* 'x'"):
        both(w)
    doubled = sw.jit(lambda a, *, by: a * by)
    np.testing.assert_array_equal(doubled(w, by=3).numpy(), 3 * w)
    assert doubled.plan(w, by=w).memory_bytes > 0


@pytest.mark.parametrize("read, meant", [
    (lambda: sw.nn.Linear, r"did you mean Dense\(inputs, outputs\)"), (lambda: sw.nn.ReLU, "did you mean ops.relu"),
    (lambda: sw.optim.Adam, "did you mean adam"), (lambda: sw.ops.einsum, "did you mean matmul, transpose and sum"),
    (lambda: sw.ops.sofmax, "did you mean softmax"), (lambda: sw.valueandgrad, "did you mean value_and_grad"),
    (lambda: sw.Tensor([1.0]).view, "say reshape"), (lambda: sw.Tensor([1.0]).relu, "say ops.relu"),
])
def test_a_name_that_is_not_there_says_what_is(read, meant):
    with pytest.raises(AttributeError, match=meant):
        read()


@pytest.mark.parametrize("options, told", [
    ({"device": 8}, "no option 'device' .did you mean devices"), ({"tp": 2}, "did you mean fix=\"tp=2\""),
    ({"devices": "eight"}, "devices eight: should be an integer"), ({"memory_cap": "8gigs"}, "memory_cap 8gigs: should be"),
])
def test_options_are_checked_where_they_are_said(options, told):
    with pytest.raises(sw.ShardwrightError, match=told):
        sw.train_step(lambda w, x: (x @ w).mean(), np.ones((4, 2), np.float32), sw.optim.sgd(0.1), **options)
    with pytest.raises(TypeError, match="should be those of the parts, like"):
        sw.ops.split(X, 2)


def test_examples_of_docstrings_run():
    names = [m.name for m in pkgutil.iter_modules(sw.__path__) if m.name not in ("__main__", "_core", "torch")]  # torch: newer than Debian's
    results = [doctest.testmod(importlib.import_module(f"shardwright.{name}")) for name in names]
    assert sum(r.attempted for r in results) >= 4 and sum(r.failed for r in results) == 0
