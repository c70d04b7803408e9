"""Executes a program of `shardwright lower --json` by docs/program-format.md alone: all ranks in this process, each of
which does its list of instructions.

Nothing here knows how ranks compute their parts. An operator is evaluated on whole tensors, in which what a rank does not
hold is zero (or minus infinity, of what takes a maximum), and the rank keeps its own box of the result.
"""

import math

import torch
import torch.nn.functional as F

DTYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
          "i64": torch.int64, "i32": torch.int32, "u8": torch.uint8, "bool": torch.bool}


# ---- layouts ----


def coordinates(rank, mesh):
    out = {}
    for axis, size in reversed(mesh):
        rank, out[axis] = divmod(rank, size)
    return out


def part_of(rank, mesh, axes):
    """How many parts the axes make, and which one is the rank's."""
    at, sizes, count, index = coordinates(rank, mesh), dict(mesh), 1, 0
    for axis in axes:
        count, index = count * sizes[axis], index * sizes[axis] + at[axis]
    return count, index


def cut(n, parts, i):
    return i * n // parts, (i + 1) * n // parts


def window_range(n, parts, i, window):
    loop, num, den, low, high = window
    begin, end = cut(loop, parts, i)
    if begin == end:
        return 0, 0
    first = max(0, -(-(begin * num + low) // den))
    last = min(n - 1, ((end - 1) * num + high) // den)
    return (first, last + 1) if first <= last else (0, 0)


def box_of(value, stage, rank):
    layout, out = value["layout"], []
    mesh = stage["meshes"][layout["mesh"]]
    windows = layout.get("windows") or [None] * len(value["shape"])
    grains = layout.get("grains") or [1] * len(value["shape"])
    places = layout.get("places") or [None] * len(value["shape"])
    for n, axes, window, grain, told in zip(value["shape"], layout["dims"], windows, grains, places):
        parts, i = part_of(rank, mesh, axes)
        out.append(window_range(n, parts, i, window) if window
                   else (told[i], told[i + 1]) if told
                   else tuple(grain * at for at in cut(n // grain, parts, i)))
    return out


def slices(box, seen_from=None):
    first = [a for a, _ in seen_from] if seen_from else [0] * len(box)
    return tuple(slice(a - f, b - f) for (a, b), f in zip(box, first))


# ---- operators, on whole tensors ----


def gradients(f, dy, *x):
    """Of f at floating x, for the cotangent dy."""
    x = [v.detach().clone().requires_grad_(v.is_floating_point()) for v in x]
    with torch.enable_grad():
        y = f(*x)
    return torch.autograd.grad(y, [v for v in x if v.requires_grad], dy)


def attention(q, k, v, mask=None, *, causal, scale, alibi, **_):
    share = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(share, 1), v.repeat_interleave(share, 1)
    scores = q @ k.transpose(-1, -2) * scale
    apart = torch.arange(k.shape[2]) - torch.arange(q.shape[2]).unsqueeze(1) - (k.shape[2] - q.shape[2])
    assert not alibi, "alibi is not written here"
    scores = scores if mask is None else scores + mask
    scores = scores.masked_fill(apart > 0, -math.inf) if causal else scores
    return torch.softmax(scores, -1) @ v


def rotary(x, *, base, interleaved, inverse, rates, order=0):
    assert not interleaved and order == 0, "other orders are not written here"
    half = x.shape[-1] // 2
    by_pair = base ** (-torch.arange(half).double() / half)
    if rates:  # "by_1.0_0.125", a number a pair
        by_pair = torch.tensor([float(rate) for rate in rates.split("_")[1:]], dtype=torch.float64)
    angle = torch.arange(x.shape[-2]).double().unsqueeze(1) * by_pair
    turn = torch.polar(torch.ones_like(angle), -angle if inverse else angle)
    y = torch.complex(x[..., :half].double(), x[..., half:].double()) * turn
    return torch.cat([y.real, y.imag], -1).to(x.dtype)


def rms_norm(x, gamma, *, epsilon):
    dims = tuple(range(-gamma.dim(), 0))
    return gamma * x / torch.sqrt((x * x).mean(dims, keepdim=True) + epsilon)


def layer_norm(x, gamma, beta, *, epsilon):
    return F.layer_norm(x, gamma.shape, gamma, beta, epsilon)


def layer_norm_grad(dy, x, gamma, *, epsilon):
    return gradients(lambda *a: layer_norm(*a, epsilon=epsilon), dy, x, gamma, torch.zeros_like(gamma))


def conv2d(x, w, *, strides, dilations, pads, groups):
    return F.conv2d(F.pad(x, (pads[1], pads[3], pads[0], pads[2])), w, None, strides, 0, dilations, groups)


def conv_transpose2d(dy, w, *, size, strides, dilations, pads, groups):
    x = dy.new_zeros([dy.shape[0], w.shape[1] * groups, *size])
    how = dict(strides=strides, dilations=dilations, pads=pads, groups=groups)
    return gradients(lambda v: conv2d(v, w, **how), dy, x)[0]


def conv2d_weight_grad(x, dy, *, kernel, strides, dilations, pads, groups):
    w = x.new_zeros([dy.shape[1], x.shape[1] // groups, *kernel])
    how = dict(strides=strides, dilations=dilations, pads=pads, groups=groups)
    return gradients(lambda v: conv2d(x, v, **how), dy, w)[0]


def max_pool2d(x, *, kernel, strides, dilations, pads):
    x = F.pad(x, (pads[1], pads[3], pads[0], pads[2]), value=-math.inf)
    return F.max_pool2d(x, kernel, strides, 0, dilations)


def max_pool2d_grad(dy, x, *, size, **how):
    return gradients(lambda v: max_pool2d(v, **how), dy, x)[0]


def scale_of(moments, epsilon):
    return 1 / torch.sqrt(moments[1] - moments[0] ** 2 + epsilon)


def by_channel(x, like):
    return x.reshape([1, -1] + [1] * (like.dim() - 2))


def batch_moments(x):
    dims = [0] + list(range(2, x.dim()))
    return torch.stack([x.double().mean(dims), (x.double() ** 2).mean(dims)])


def batch_norm(x, gamma, beta, moments, *, epsilon):
    normal = (x - by_channel(moments[0], x)) * by_channel(scale_of(moments, epsilon), x)
    return (by_channel(gamma, x) * normal + by_channel(beta, x)).to(x.dtype)


def batch_norm_weights_grad(dy, x, moments, *, epsilon):
    normal = (x - by_channel(moments[0], x)) * by_channel(scale_of(moments, epsilon), x)
    dims = [0] + list(range(2, x.dim()))
    return (dy * normal).sum(dims), dy.sum(dims)


def batch_norm_grad(dy, x, gamma, moments, dgamma, dbeta, *, epsilon):
    n = x.numel() // x.shape[1]
    s = scale_of(moments, epsilon)
    normal = (x - by_channel(moments[0], x)) * by_channel(s, x)
    return by_channel(gamma * s, x) * (dy - by_channel(dbeta, x) / n - normal * by_channel(dgamma, x) / n)


def running_moments(mean, variance, moments, *, count, momentum):
    fresh = (moments[1] - moments[0] ** 2) * count / max(count - 1, 1)
    return (1 - momentum) * mean + momentum * moments[0], (1 - momentum) * variance + momentum * fresh


def cross_entropy_terms(x, labels, largest, *, full):
    """Of a label that the rank does not hold, which is minus infinity here, the second term is 0."""
    v = x - largest.unsqueeze(-1)
    own = v.gather(-1, labels.long().unsqueeze(-1)).squeeze(-1)
    return torch.stack([torch.exp(v).sum(-1), torch.where(own == -math.inf, torch.zeros_like(own), own)])


def cross_entropy_terms_grad(dy, x, labels, largest):
    at_label = F.one_hot(labels.long(), x.shape[-1]).to(x.dtype)
    return dy[0].unsqueeze(-1) * torch.exp(x - largest.unsqueeze(-1)) + dy[1].unsqueeze(-1) * at_label


def gather(table, indices, *, dim):
    return torch.stack([table.select(dim, int(i)) for i in indices.reshape(-1)], dim).reshape(
        list(table.shape[:dim]) + list(indices.shape) + list(table.shape[dim + 1 :]))


def segment_sum(data, ids, *, count, dim):
    rows = data.reshape(list(data.shape[:dim]) + [-1] + list(data.shape[dim + ids.dim() :]))
    y = torch.zeros(list(data.shape[:dim]) + [count] + list(data.shape[dim + ids.dim() :]), dtype=data.dtype)
    return y.index_add(dim, ids.reshape(-1).long(), rows)


def optimizer(step):
    """`step(w, g, states, count, rate, settings)`: the new weight and states."""

    def run(*operands, **a):
        w, g, *rest = operands
        guard = rate = None
        if "rate" not in a:
            rate, rest = rest[-1], rest[:-1]
        if a["guarded"]:
            guard, rest = rest[-1], rest[:-1]
        count = None
        if "beta1" in a:
            count, rest = float(rest[-1]), rest[:-1]
        states = rest
        start = states[-1] if a["master"] else w
        new = list(step(start, g, states, count, a["rate"] if rate is None else float(rate), a))
        if a["master"]:
            new = [new[0].to(w.dtype)] + new[1:] + [new[0]]
        if guard is not None and float(guard) == 0:
            new = [w] + list(states)
        return new

    return run


def sgd(w, g, states, count, rate, a):
    return [w - rate * (g + a["weight_decay"] * w)]


def momentum(w, g, states, count, rate, a):
    d = g + a["weight_decay"] * w
    m = a["momentum"] * states[0] + d
    return [w - rate * (d + a["momentum"] * m if a["nesterov"] else m), m]


def adam(w, g, states, count, rate, a, decoupled=False):
    t = count + 1
    w = w * (1 - rate * a["weight_decay"]) if decoupled else w
    d = g if decoupled else g + a["weight_decay"] * w
    m = a["beta1"] * states[0] + (1 - a["beta1"]) * d
    v = a["beta2"] * states[1] + (1 - a["beta2"]) * d * d
    root = math.sqrt(1 - a["beta2"] ** t)
    below = torch.sqrt(v) / root + a["epsilon"] / (root if a.get("plain_epsilon") else 1)
    return [w - rate / (1 - a["beta1"] ** t) * m / below, m, v]


def next_loss_scale(scale, good, ok, *, factor, interval, least):
    if ok > 0:
        good = good + 1
        return (scale * factor, good * 0) if interval and good >= interval else (scale, good)
    return (torch.clamp(scale / factor, min=least) if interval else scale), good * 0


def rms_norm_grad_by_sums(dy, x, gamma, squares, dot, *, epsilon):
    each, n = list(squares.shape) + [1] * gamma.dim(), gamma.numel()
    s = (1 / torch.sqrt(squares / n + epsilon)).reshape(each)
    dgamma = (dy * x * s).sum(tuple(range(squares.dim())))
    return s * (gamma * dy - x * s * s * dot.reshape(each) / n), dgamma


def clip(x, **limits):
    return torch.clamp(x, **limits)


OPERATORS = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b,
    "neg": lambda x: -x, "scale": lambda x, factor: x * factor, "shift": lambda x, value: x + value,
    "relu": torch.relu, "relu_grad": lambda dy, y: dy * (y > 0), "sqrt": torch.sqrt, "reciprocal": lambda x: 1 / x,
    "gelu": lambda x, approximate: F.gelu(x, approximate=approximate),
    "gelu_grad": lambda dy, x, approximate: gradients(lambda v: F.gelu(v, approximate=approximate), dy, x)[0],
    "swiglu": lambda gate, up: F.silu(gate) * up,
    "swiglu_grad": lambda dy, gate, up: gradients(lambda g, u: F.silu(g) * u, dy, gate, up),
    "clip": clip, "sum": lambda *x: sum(x), "sum_of_squares": lambda x: (x * x).sum(),
    "reshard": lambda x: x, "keep": lambda x: x, "stop_gradient": lambda x: x, "reformat": lambda x: x,
    "matmul": lambda a, b, transpose_a, transpose_b:
        (a.transpose(-1, -2) if transpose_a else a) @ (b.transpose(-1, -2) if transpose_b else b),
    "outer_product": lambda a, b: torch.einsum("ik,in->kn", a.flatten(0, -2), b.flatten(0, -2)),
    "reduce_sum": lambda x, dims, keep: x.sum(dims, keepdim=keep) if dims else x,
    "reduce_mean": lambda x, dims, keep: x.mean(dims, keepdim=keep) if dims else x,
    "reduce_max": lambda x, dims, keep: x.amax(dims, keepdim=keep),
    "broadcast": lambda x, shape: x.expand(shape), "reshape": lambda x, shape: x.reshape(shape),
    "transpose": lambda x, dims: x.permute(dims), "gather": gather, "unsorted_segment_sum": segment_sum,
    "layer_norm": layer_norm, "layer_norm_grad": layer_norm_grad, "rms_norm": rms_norm,
    "rms_norm_grad": lambda dy, x, gamma, epsilon:
        gradients(lambda *a: rms_norm(*a, epsilon=epsilon), dy, x, gamma),
    "rms_norm_squares": lambda x, count: (x * x).sum(tuple(range(-count, 0))),
    "rms_norm_by_squares": lambda x, gamma, squares, epsilon:
        gamma * x / torch.sqrt(squares / gamma.numel() + epsilon).reshape(list(squares.shape) + [1] * gamma.dim()),
    "rms_norm_dot": lambda dy, x, gamma: (dy * x * gamma).sum(tuple(range(-gamma.dim(), 0))),
    "rms_norm_grad_by_sums": rms_norm_grad_by_sums,
    "rotary": rotary, "attention": attention,
    "attention_grad": lambda dy, q, k, v, y, *mask, **how:
        gradients(lambda *a: attention(*a, *mask, **how), dy, q, k, v),
    "cross_entropy_terms": cross_entropy_terms, "cross_entropy_terms_grad": cross_entropy_terms_grad,
    "cross_entropy_of_terms": lambda t: torch.log(t[0]) - t[1],
    "cross_entropy_of_terms_grad": lambda dy, t: torch.stack([dy / t[0], -dy]),
    "conv2d": conv2d, "conv_transpose2d": conv_transpose2d, "conv2d_weight_grad": conv2d_weight_grad,
    "max_pool2d": max_pool2d, "max_pool2d_grad": max_pool2d_grad, "batch_moments": batch_moments,
    "batch_norm": batch_norm, "batch_norm_weights_grad": batch_norm_weights_grad,
    "batch_norm_grad": batch_norm_grad, "running_moments": running_moments,
    "sgd": optimizer(sgd), "momentum": optimizer(momentum), "adam": optimizer(adam),
    "adamw": optimizer(lambda *a: adam(*a, decoupled=True)),
    "is_finite": lambda x: torch.isfinite(x).to(x.dtype), "next_loss_scale": next_loss_scale,
    "mean_squared_error": lambda a, b: ((a - b) ** 2).mean(),
    "mean_squared_error_grad": lambda dy, a, b: dy * 2 * (a - b) / a.numel(),
}
# Operands in which what a rank does not hold takes no part in a maximum.
SMALLEST = {"reduce_max": [0], "cross_entropy_terms": [0], "max_pool2d": [0], "max_pool2d_grad": [1]}


# ---- ranks ----


class Stage:
    def __init__(self, spec):
        self.spec, self.first, self.count = spec, spec["first_rank"], spec["ranks"]
        self.values = {v["name"]: v for v in spec["values"]}
        self.nodes = spec["nodes"]
        self.producer = {r: n for n in self.nodes for r in n["results"]}

    def has(self, rank):
        return self.first <= rank < self.first + self.count

    def box(self, name, rank):
        return box_of(self.values[name], self.spec, rank - self.first)

    def dtype(self, name):
        return DTYPES[self.values[name]["type"]]

    def fusion(self, n):
        yield self.nodes[n]
        for node in self.nodes[n + 1 :]:
            if not node.get("fused"):
                return
            yield node


LEAVES = ("param", "state", "accumulator")


class Rank:
    def __init__(self, program, number, stages, posted):
        self.steps, self.number, self.stages, self.posted = program["steps"][number], number, stages, posted
        self.program, self.done = program, 0
        own = self.steps["stages"]
        self.leaves = {s: {} for s in own}
        self.latest = {s: {} for s in own}  # of all micro-batches
        self.of_batch = {s: [{} for _ in range(program["micro_batches"])] for s in own}

    def read(self, s, name, m, phase):
        """A reshape and its like is in no list: it is its operand seen otherwise."""
        if name in self.leaves[s]:
            return self.leaves[s][name]
        first, other = self.of_batch[s][m], self.latest[s]
        if phase == "update":
            first, other = other, first
        for table in (first, other):
            if name in table:
                return table[name]
        node = self.stages[s].producer[name]
        return self.compute(s, node, m, phase)[node["results"].index(name)]

    def write(self, s, name, m, value):
        self.of_batch[s][m][name] = self.latest[s][name] = value

    def whole(self, s, name, value, other):
        """A tensor of the whole shape that has the rank's part."""
        stage = self.stages[s]
        shape = stage.values[name]["shape"]
        box = stage.box(name, self.number)
        if all((a, b) == (0, n) for (a, b), n in zip(box, shape)):
            return value
        out = torch.full(shape, other, dtype=value.dtype) if other else torch.zeros(shape, dtype=value.dtype)
        out[slices(box)] = value
        return out

    def compute(self, s, node, m, phase):
        stage = self.stages[s]
        smallest = SMALLEST.get(node["op"], [])
        operands = [self.whole(s, name, self.read(s, name, m, phase), -math.inf if i in smallest else 0)
                    for i, name in enumerate(node["operands"])]
        if node["op"] == "fill":
            results = [torch.full(node["attributes"]["shape"], node["attributes"]["value"],
                                  dtype=DTYPES[node["attributes"]["dtype"]])]
        elif node["op"] == "cast":
            results = [operands[0].to(DTYPES[node["attributes"]["to"]])]
        elif node["op"] == "slice":
            results = operands
        elif node["op"] == "mask":
            layout = stage.values[node["results"][0]]["layout"]
            mesh = stage.spec["meshes"][layout["mesh"]]
            new = [a for a in layout["sum"] if a not in stage.values[node["operands"][0]]["layout"].get("sum", [])]
            at = coordinates(self.number - stage.first, mesh)
            results = [operands[0] if all(at[a] == 0 for a in new) else torch.zeros_like(operands[0])]
        else:
            results = OPERATORS[node["op"]](*operands, **node["attributes"])
            results = list(results) if isinstance(results, (tuple, list)) else [results]
        return [y[slices(stage.box(name, self.number))].to(stage.dtype(name)).clone()
                for y, name in zip(results, node["results"])]

    # -- transfers --

    def key_of(self, transfer, m):
        """What is of the update, or before the first micro-batch, there is once."""
        if "crossing" in transfer:
            once_a = self.program["crossings"][transfer["crossing"]]["once_a"]
            return "crossing", transfer["crossing"], m if once_a == "micro-batch" else 0
        name = transfer["parts"][0]["to"]
        phase = self.stages[transfer["stage"]].producer[name]["phase"]
        return transfer["stage"], name, 0 if phase == "update" else m

    def post(self, transfer, m, phase, s):
        if transfer["parts"][0]["from"] is None:
            return
        crossing = self.program["crossings"][transfer["crossing"]] if "crossing" in transfer else None
        s = crossing["from"] if crossing else s
        values = [self.read(s, p["from"], m, phase).clone() for p in transfer["parts"]]
        self.posted.setdefault(self.key_of(transfer, m), {})[self.number] = values

    def take(self, transfer, m, phase):
        """Waits, as a generator, for all that give, and brings what this rank's boxes hold of it."""
        if transfer["parts"][0]["to"] is None:
            return
        if "stage" in transfer:
            s = transfer["stage"]
            nodes = [self.stages[s].producer[part["to"]] for part in transfer["parts"]]
            if nodes[0]["op"] in ("slice", "mask"):  # of this rank alone
                for node in nodes:
                    self.write(s, node["results"][0], m, self.compute(s, node, m, phase)[0])
                return
        crossing = self.program["crossings"][transfer["crossing"]] if "crossing" in transfer else None
        source = crossing["from"] if crossing else transfer["stage"]
        target = crossing["to"] if crossing else transfer["stage"]
        givers = [r for r in transfer["group"] if self.stages[source].has(r)]
        key = self.key_of(transfer, m)
        while not all(r in self.posted.get(key, {}) for r in givers):
            yield
        for i, part in enumerate(transfer["parts"]):
            sent = crossing["sent"] if crossing else part["from"]
            made = self.assemble(source, sent, target, part["to"], {r: self.posted[key][r][i] for r in givers})
            self.write(target, part["to"], m, made)

    def assemble(self, source, sent, target, name, parts):
        """Of values that differ along axes over which they are reduced, the sum or the largest."""
        given, wanted = self.stages[source], self.stages[target]
        before, after = given.values[sent]["layout"], wanted.values[name]["layout"]
        mesh = given.spec["meshes"][before["mesh"]]
        left = {key: [a for a in before.get(key, []) if a not in after.get(key, [])] for key in ("sum", "max")}
        box, addends = wanted.box(name, self.number), {}
        for rank, value in parts.items():
            at = coordinates(rank - given.first, mesh)
            index = tuple(at[a] for a in left["sum"] + left["max"])
            out = addends.setdefault(index, torch.zeros([b - a for a, b in box], dtype=value.dtype))
            held = given.box(sent, rank)
            both = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(box, held)]
            if all(a < b for a, b in both):
                out[slices(both, box)] = value[slices(both, held)]
        stacked = torch.stack(list(addends.values()))
        return stacked.amax(0) if left["max"] else stacked.sum(0)

    # -- instructions --

    def act(self, i, s, m, phase, batch, outputs):
        s = i.get("stage", s)
        stage = self.stages[s]
        transfers = self.steps["transfers"]
        if i["act"] in ("compute", "copy", "keep"):
            for node in stage.fusion(i["node"]):
                if node["op"] == "receive":
                    name = node["results"][0]
                    shape = [b - a for a, b in stage.box(name, self.number)]
                    self.write(s, name, m, torch.zeros(shape, dtype=stage.dtype(name)))
                    continue
                if node["op"] in ("all_reduce.sum", "all_reduce.max", "all_gather", "all_to_all", "reduce_scatter",
                                  "permute", "exchange", "halo"):  # kept: it is there already
                    self.write(s, node["results"][0], m, self.read(s, node["operands"][0], m, phase))
                    continue
                for name, value in zip(node["results"], self.compute(s, node, m, phase)):
                    self.write(s, name, m, value)
        elif i["act"] == "start":
            self.post(transfers[i["transfer"]], m, phase, s)
        elif i["act"] == "finish":
            t = transfers[i["transfer"]]
            if "crossing" not in t or self.program["crossings"][t["crossing"]]["to"] == s:
                if len(t["group"]) == 1 and self.number not in self.posted.get(self.key_of(t, m), {}):
                    self.post(t, m, phase, s)
                yield from self.take(t, m, phase)
        elif i["act"] == "clear":
            for node in stage.nodes:
                if node["op"] == "accumulator":
                    name = node["results"][0]
                    shape = [b - a for a, b in stage.box(name, self.number)]
                    self.leaves[s][name] = torch.zeros(shape, dtype=stage.dtype(name))
        elif i["act"] == "fill":
            for node in stage.nodes:
                if node["op"] == "input":
                    name = node["results"][0]
                    rows = stage.values[name]["shape"][0] * m
                    box = stage.box(name, self.number)
                    box[0] = (box[0][0] + rows, box[0][1] + rows)
                    self.of_batch[s][m][name] = batch[name][slices(box)].to(stage.dtype(name))
        elif i["act"] == "replace":
            new = {u["leaf"]: self.read(s, u["value"], m, phase) for u in stage.spec["updates"] if u["after"] == i["phase"]}
            self.leaves[s].update(new)
        elif i["act"] == "hand out":
            for o in self.program["outputs"]:
                is_mine = o["stage"] == s and o["after"] == i["phase"] and stage.first == self.number
                if is_mine and stage.values[o["value"]]["shape"] == []:
                    outputs.setdefault(o["name"], []).append(self.read(s, o["value"], m, phase))

    def step(self, batch, outputs):
        for i in self.steps["instructions"]:
            self.done += 1
            m = i["micro_batch"]
            if i["act"] != "run":
                yield from self.act(i, i["stage"], m, "forward", batch, outputs)
                continue
            section = self.steps["sections"][i["section"]]
            for inner in section["instructions"]:
                self.done += 1
                yield from self.act(inner, section["stage"], m, section["phase"], batch, outputs)
        for s in self.latest:
            self.latest[s].clear()
            for table in self.of_batch[s]:
                table.clear()


class Program:
    def __init__(self, program, weights):
        assert program["format"] == "shardwright program" and program["version"] <= 3
        self.stages = [Stage(s) for s in program["stages"]]
        self.posted = {}
        self.ranks = [Rank(program, r, self.stages, self.posted) for r in range(program["ranks"])]
        for rank in self.ranks:
            for s in rank.leaves:
                for node in self.stages[s].nodes:
                    if node["op"] in ("param", "state"):
                        self.begin(rank, s, node, weights)

    def begin(self, rank, s, node, weights):
        stage, name = self.stages[s], node["results"][0]
        source = node["attributes"].get("as", name)
        box = stage.box(name, rank.number)
        if source in weights:
            value = weights[source][slices(box)].to(stage.dtype(name)).clone()
        else:
            init = node["attributes"].get("init", "zeros")
            start = {"zeros": 0, "ones": 1, "constant": node["attributes"].get("value", 0)}[init]
            value = torch.full([b - a for a, b in box], start, dtype=stage.dtype(name))
        rank.leaves[s][name] = value

    def step(self, batch):
        """All ranks go on in turn until each is at the end of its list. Returns the mean of each scalar output."""
        outputs, waiting = {}, []
        for rank in self.ranks:
            waiting.append(rank.step(batch, outputs))
        while waiting:
            before = sum(rank.done for rank in self.ranks)
            left = [rank for rank in waiting if next(rank, waiting) is not waiting]
            moved = sum(rank.done for rank in self.ranks) > before or len(left) < len(waiting)
            assert moved, "the ranks wait for one another"
            waiting = left
        self.posted.clear()
        return {name: torch.stack(values).double().mean().item() for name, values in outputs.items()}
