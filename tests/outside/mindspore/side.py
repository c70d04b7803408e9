#!/usr/bin/env python3
"""Runs the small programs of programs.txt by the `mindspore` that is importable, MindSpore's or ours, and writes what they give.

  side.py OUT.jsonl [--only WORD] [--skip N]     a line of JSON for each program: its results and gradients, or its error

The same file runs on both sides; weights and data depend on the program's text alone.
"""

import argparse
import ast
import contextlib
import io
import json
import math
import os
import pathlib
import re
import sys
import zlib

import numpy as np

HERE = pathlib.Path(__file__).parent
_most_elements = 6  # of an array that is written as it is; of larger ones as many sums of its elements with signs


def programs():
    """All lines of the table, `{a b}` being one line with each."""
    def expanded(line):
        braces = re.search(r"\{([\w. ]+|f\[[\d,]+\])\}", line)
        if not braces:
            return [line]
        return [e for word in braces[1].split()
                for e in expanded(line[:braces.start()] + word + line[braces.end():])]

    lines = (HERE / "programs.txt").read_text().splitlines()
    return list(dict.fromkeys(e for line in lines if line and not line.startswith("#") for e in expanded(line)))


def name_of(program):
    """Which name of MindSpore's it is about."""
    text = re.sub(r"^(names|measured|amp_scaler|transformed)\(", "", program)
    found = re.match(r"(?:ms\.(?:\w+\.)*\w+|(?:ops|nn|mint|train)\.[\w.]+)", text)
    if found:
        return found[0].removeprefix("ms.")
    method = re.search(r"[\])]\.(\w+)", text)
    return f"Tensor.{method[1]}" if method else re.match(r"\w+", text)[0] if re.match(r"\w+\(", text) else "Tensor"


# ---- what is drawn ----

def drawn(kind, shape, generator):
    """A numpy array of one of the letters."""
    if kind[0] in "il":
        return generator.integers(0, int(kind[1:]), shape).astype(np.int32 if kind[0] == "i" else np.int64)
    if kind == "b":
        return generator.random(shape) < 0.5
    values = {"f": lambda: generator.standard_normal(shape), "h": lambda: generator.standard_normal(shape),
              "d": lambda: generator.standard_normal(shape), "p": lambda: generator.uniform(0.5, 2, shape),
              "u": lambda: generator.uniform(-0.9, 0.9, shape), "q": lambda: generator.uniform(0.05, 0.95, shape),
              "s": lambda: np.where(generator.random(shape) < 0.5, -1.0, 1.0)}[kind]()
    return np.asarray(values, {"h": np.float16, "d": np.float64}.get(kind, np.float32))


class _Parts(ast.NodeTransformer):
    """Draws become places in a list, and what is made before the program runs (cells, primitives) names of its own."""

    def __init__(self):
        self.draws, self.made = [], []

    def visit_Subscript(self, node):
        if isinstance(node.value, ast.Name) and re.fullmatch(r"[fpuqsbhd]|[il]\d+", node.value.id):
            shape = ast.literal_eval(node.slice)
            self.draws.append((node.value.id, shape if isinstance(shape, tuple) else (shape,)))
            return ast.copy_location(ast.parse(f"drawn_[{len(self.draws) - 1}]", mode="eval").body, node)
        return self.generic_visit(node)

    def visit_Call(self, node):
        if isinstance(node.func, ast.Call):
            self.made.append(self.visit(node.func))
            node.func = ast.parse(f"made_[{len(self.made) - 1}]", mode="eval").body
            node.args = [self.visit(a) for a in node.args]
            node.keywords = [self.visit(k) for k in node.keywords]
            return node
        return self.generic_visit(node)


# ---- what is written ----

def digest(array):
    """Type, shape and numbers."""
    array = np.asarray(array)
    kind = str(array.dtype)
    if array.dtype.kind not in "fiub":
        return [kind, list(array.shape), [str(x) for x in array.reshape(-1)]]
    flat = array.astype(np.float64).reshape(-1)
    if flat.size > _most_elements:
        signs = np.where(np.random.RandomState(flat.size).rand(_most_elements, flat.size) < 0.5, -1.0, 1.0)
        flat = signs @ np.nan_to_num(flat, nan=77.0, posinf=1e6, neginf=-1e6) / math.sqrt(flat.size)
    return [kind, list(array.shape), [float(f"{x:.7g}") if math.isfinite(x) else str(x) for x in flat]]


def leaves(value):
    """Tensors, numbers and names in a result, in their order."""
    if isinstance(value, dict):
        value = list(value.items())
    if isinstance(value, (tuple, list)):
        return [x for item in value for x in leaves(item)]
    return [] if value is None else [value]


def text_of(error):
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


class Side:
    """One of the two."""

    def __init__(self):
        import mindspore as ms
        import mindspore.dataset
        import mindspore.dataset.vision
        from mindspore import Parameter, Tensor, mint, nn, ops, train

        self.ms, self.nn, self.ops, self.Tensor = ms, nn, ops, Tensor
        ms.set_context(mode=ms.PYNATIVE_MODE, device_target="CPU")
        if os.environ.get("SHARDWRIGHT_DEVICES", "1") != "1":  # ours, on virtual devices: gradients and steps are split
            ms.set_context(mode=ms.GRAPH_MODE)
            ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
        self.names = {"ms": ms, "nn": nn, "ops": ops, "mint": mint, "train": train, "Tensor": Tensor, "np": np,
                      "Parameter": Parameter, "names": self.names_of_states, "measured": self.measured,
                      "callbacks_told": self.callbacks_told, "monitors_print": self.monitors_print,
                      "amp_scaler": self.amp_scaler, "transformed": self.transformed}

    def run(self, program):
        """{"out", "grad"}, {"error"}."""
        generator = np.random.default_rng(zlib.crc32(program.encode()))
        self.generator = generator
        parts = _Parts()
        try:
            body = parts.visit(ast.parse(program, mode="eval"))
            ast.fix_missing_locations(body)
            values = [drawn(kind, shape, generator) for kind, shape in parts.draws]
            tensors = [self.Tensor(v) for v in values]
            if re.search(r"\bP\b", program):
                return {"out": self.trained(program)}
            names = dict(self.names)
            names["drawn_"] = tensors
            made = names["made_"] = []
            for node in parts.made:
                made.append(eval(compile(ast.fix_missing_locations(ast.Expression(node)), program, "eval"), names))
            cells = [m for m in made if isinstance(m, self.nn.Cell)]
            weights = self.filled(cells)
            code = compile(body, program, "eval")
            result = leaves(eval(code, names))
            out = [self.shown(x) for x in result]
            of = [i for i, v in enumerate(values) if v.dtype.kind == "f"]
            known = {"out": out}
            if weights:
                known["names"] = sorted(p.name for c in cells for p in c.get_parameters())
        except Exception as error:
            return {"error": text_of(error)}
        if any(self.is_loss(x) for x in result) and (of or weights):
            try:
                known["grad"] = self.gradients(code, names, values, of, weights)
            except Exception as error:
                known["grad_error"] = text_of(error)
        return known

    def is_loss(self, x):
        return isinstance(x, self.Tensor) and "Float" in str(x.dtype)

    def shown(self, x):
        return digest(x.asnumpy() if isinstance(x, self.Tensor) else x if isinstance(x, np.ndarray) else np.asarray(x)) \
            if not isinstance(x, (str, type(self.ms.float32))) else str(x)

    def filled(self, cells):
        """Draws what cells hold; those that are trained."""
        parameters = sorted((p.name, i, p) for i, c in enumerate(cells) for p in c.get_parameters())
        for name, _, p in parameters:
            values = self.generator.standard_normal(p.shape) * 0.5
            if "var" in name:
                values = np.abs(values) + 0.5
            p.set_data(self.Tensor(values.astype(np.float32)))
        return [p for _, _, p in parameters if p.requires_grad]

    def loss(self, result):
        """The sum of all floats of a result, each with a weight of its own."""
        total = None
        for x in leaves(result):
            if self.is_loss(x):
                size = int(np.prod(x.shape))
                scales = self.Tensor(np.cos(np.arange(size) + 0.5).reshape(x.shape).astype(np.float32))
                part = (x.astype(self.ms.float32) * scales).sum()
                total = part if total is None else total + part
        return total

    def gradients(self, code, names, values, of, weights):
        def function(*floats):
            tensors = [self.Tensor(v) for v in values]
            for place, tensor in zip(of, floats):
                tensors[place] = tensor
            return self.loss(eval(code, {**names, "drawn_": tensors}))

        inputs = [self.Tensor(values[i]) for i in of]
        positions = tuple(range(len(of))) if of else None
        found = self.ms.grad(function, positions, weights or None)(*inputs)
        return [self.shown(x) for x in leaves(found)]

    # ---- programs that are more than a call ----

    def small_network(self):
        net = self.nn.SequentialCell(self.nn.Dense(5, 4), self.nn.ReLU(), self.nn.Dense(4, 3))
        self.filled([net])
        return net

    def trained(self, program):
        """Losses of four steps, and the weights behind them; or the names of its states."""
        net = self.small_network()
        x, y = self.Tensor(drawn("f", (6, 5), self.generator)), self.Tensor(drawn("f", (6, 3), self.generator))
        optimizer = eval(program, {**self.names, "P": list(net.trainable_params())})
        if not callable(optimizer):
            return optimizer
        step = self.ms.value_and_grad(lambda a, b: ((net(a) - b) ** 2).mean(), None, list(net.trainable_params()))
        losses = []
        for _ in range(4):
            loss, gradients = step(x, y)
            losses.append(float(loss.asnumpy()))
            optimizer(gradients)
        return [digest(np.array(losses, np.float32))] + [digest(p.asnumpy()) for p in net.trainable_params()]

    @staticmethod
    def names_of_states(optimizer):
        return sorted(f"{p.name} {tuple(p.shape)} {p.dtype}" for p in optimizer.get_parameters())

    def measured(self, metric, batch, *arguments):
        metric.clear()
        metric.update(*batch)
        return metric.eval(*arguments)

    def model(self):
        net = self.small_network()
        loss = self.nn.MSELoss()
        data = self.ms.dataset.NumpySlicesDataset((drawn("f", (12, 5), self.generator), drawn("f", (12, 3), self.generator)),
                                                  ["x", "y"], shuffle=False).batch(4)
        return self.ms.train.Model(net, loss, self.nn.SGD(net.trainable_params(), 0.1)), data

    def callbacks_told(self, is_sunk=False):
        """What hooks see of the step and the epoch."""
        seen = []

        class Told(self.ms.train.Callback):
            def __getattribute__(self, name):
                if name.startswith("on_train_"):
                    def told(run):
                        args = run.original_args()
                        numbers = [args.get(n) for n in ("cur_step_num", "cur_epoch_num", "epoch_num", "batch_num")]
                        seen.append(f"{name} {numbers}")
                    return told
                return super().__getattribute__(name)

        model, data = self.model()
        model.train(2, data, callbacks=[Told()], dataset_sink_mode=is_sunk)
        return seen

    def monitors_print(self):
        """Their lines, without times."""
        model, data = self.model()
        lines = io.StringIO()
        with contextlib.redirect_stdout(lines):
            model.train(2, data, callbacks=[self.ms.train.LossMonitor(2), self.ms.train.TimeMonitor()], dataset_sink_mode=False)
        rounded = re.sub(r"loss is (\S+)", lambda m: f"loss is {float(m[1]):.4f}", lines.getvalue())
        return re.sub(r"\d+\.\d+ ms", "T ms", rounded).splitlines()

    def amp_scaler(self, scaler):
        x = self.Tensor(np.ones(3, np.float32))
        out = [scaler.scale(x), scaler.unscale(x)]
        for finite in (True, True, True, False):
            scaler.adjust(self.Tensor(finite))
            out.append(scaler.scale(x))
        return out

    def transformed(self, kind, *arguments):
        rows, columns = np.mgrid[0:6, 0:8]
        image = np.stack([rows * 30 + columns * 5, 255 - rows * 20 - columns * 7, (rows * columns * 11) % 256], -1).astype(np.uint8)
        return kind(*arguments)(image)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--only", default="")
    parser.add_argument("--skip", type=int, default=0)
    said = parser.parse_args()
    side = Side()
    with open(said.out, "a", encoding="utf-8") as out:
        for number, program in enumerate(programs()):
            if number < said.skip or said.only not in program:
                continue
            print(number, program, file=sys.stderr, flush=True)
            with contextlib.redirect_stdout(io.StringIO()):
                found = side.run(program)
            out.write(json.dumps({"program": program, **found}) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
