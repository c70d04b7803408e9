"""Runs a rank's part of the step that program.py has: which functions of the model, which transfers, in which order.

A step is a list of tasks. Most run a section (the forward of a stage for one micro-batch, say), which is a list, too:
functions of model.py, starts and finishes of transfers. A transfer that starts early goes on beside what stands between.
"""

import functools
import importlib

import torch
import torch.distributed as dist

import program
from operators import device, evicted, goes_by_pixels


# ---- ranks, layouts ----


def coordinates(rank, mesh):
    """By axis; ranks are row-major, the last axis joins neighbours."""
    out = {}
    for axis, size in reversed(mesh):
        rank, out[axis] = divmod(rank, size)
    return out


def index_along(rank, mesh, axes):
    at, sizes, index = coordinates(rank, mesh), dict(mesh), 0
    for axis in axes:
        index = index * sizes[axis] + at[axis]
    return index


def count_along(mesh, axes):
    return functools.reduce(lambda n, axis: n * dict(mesh)[axis], axes, 1)


def box_of(value, rank):
    """[(first, behind the last)] of each dim that a rank of the stage has: a dim of n in k parts is cut at i n / k; where
    elements stay together (the features of a head), so are runs of them. Of what is cut by shares, the places are told."""
    out = []
    alike = [None] * len(value["shape"])
    for size, axes, grain, places in zip(value["shape"], value["dims"], value.get("grains") or alike,
                                         value.get("places") or alike):
        parts, i = count_along(value["mesh"], axes), index_along(rank, value["mesh"], axes)
        if places:
            out.append((places[i], places[i + 1]))
            continue
        grain = grain or 1
        out.append(tuple(grain * (at * (size // grain) // parts) for at in (i, i + 1)))
    return out


def members_of(rank, mesh, axes):
    """The ranks that differ from `rank` along the axes alone, ascending."""
    own = coordinates(rank, mesh)
    fixed = [axis for axis, _ in mesh if axis not in axes]
    ranks = range(count_along(mesh, [axis for axis, _ in mesh]))
    return [r for r in ranks if all(coordinates(r, mesh)[axis] == own[axis] for axis in fixed)]


# ---- transfers ----


def is_short(x):
    return x.dtype in (torch.float16, torch.bfloat16)


def as_sent(x):
    """Of types that gloo does not know the bytes; `.view(dtype)` brings them back."""
    return x.view(torch.uint8) if device.type == "cpu" and (is_short(x) or x.dtype == torch.bool) else x


class Collective:
    """A collective over axes of a stage's mesh, of one tensor or several at once."""

    def __init__(self, spec, stage, rank, groups):
        self.kind, self.reduce, self.parts = spec["kind"], spec.get("reduce", "sum"), spec["parts"]
        self.stages = (spec["stage"], spec["stage"])
        mesh, local = spec["mesh"], rank - stage["first_rank"]
        members = members_of(local, mesh, spec["over"])
        self.order = [index_along(m, mesh, spec["over"]) for m in members]  # which part a member has
        self.count, self.own = len(members), members.index(local)
        self.group = groups[tuple(stage["first_rank"] + m for m in members)]
        self.boxes = [of_part[local] for of_part in spec.get("boxes", [])]  # that are kept, of unequal parts
        self.under_way = {}

    def chunks(self, x, dim):
        """The parts of x along dim, by member."""
        parts = x.chunk(self.count, dim)
        return [parts[i] for i in self.order]

    def joined(self, chunks, dim):
        parts = [None] * self.count
        for i, chunk in zip(self.order, chunks):
            parts[i] = chunk
        return torch.cat(parts, dim)

    def start(self, m, take, _):
        xs = [take(part[0]) for part in self.parts]
        dtype = xs[0].dtype
        if self.kind in ("all_reduce", "reduce_and_cut"):
            flat = torch.cat([x.reshape(-1) for x in xs])
            flat = flat.float() if is_short(flat) and device.type == "cpu" else flat
            op = dist.ReduceOp.MAX if self.reduce == "max" else dist.ReduceOp.SUM
            work = dist.all_reduce(flat, op, self.group, async_op=True)
            self.under_way[m] = work, flat, [x.shape for x in xs], dtype
            return
        if self.kind == "all_gather":
            own = as_sent(torch.cat([x.reshape(-1) for x in xs]))
            out = [torch.empty_like(own) for _ in range(self.count)]
            work = dist.all_gather(out, own, self.group, async_op=True)
            self.under_way[m] = work, out, [x.shape for x in xs], dtype
            return
        cut = 1 if self.kind == "reduce_scatter" else 2  # of a part: the dim that is cut
        chunks = [self.chunks(x, part[cut]) for x, part in zip(xs, self.parts)]
        shapes = [c[0].shape for c in chunks]
        sent = [torch.cat([c[k].reshape(-1) for c in chunks]) for k in range(self.count)]
        if self.kind == "all_to_all":
            self.under_way[m] = *exchanged([as_sent(x) for x in sent], self.group), shapes, dtype
        elif device.type == "cpu":  # gloo has no reduce_scatter
            flat = torch.stack(sent)
            flat = flat.float() if is_short(flat) else flat
            work = dist.all_reduce(flat, group=self.group, async_op=True)
            self.under_way[m] = work, flat[self.own], shapes, dtype
        else:
            out = torch.empty_like(sent[0])
            work = dist.reduce_scatter(out, sent, group=self.group, async_op=True)
            self.under_way[m] = work, out, shapes, dtype

    def finish(self, m, give, _):
        work, made, shapes, dtype = self.under_way.pop(m)
        for w in work if isinstance(work, list) else [work]:
            w.wait()
        sizes = [shape.numel() for shape in shapes]
        if self.kind in ("all_reduce", "reduce_and_cut", "reduce_scatter"):
            for i, (part, x, shape) in enumerate(zip(self.parts, made.to(dtype).split(sizes), shapes)):
                x = x.reshape(shape)
                give(part[-1], x[tuple(slice(*own) for own in self.boxes[i])] if self.boxes else x)
            return
        split = [x.view(dtype).split(sizes) for x in made]
        for i, (part, shape) in enumerate(zip(self.parts, shapes)):
            give(part[-1], self.joined([s[i].reshape(shape) for s in split], part[1]))


def exchanged(sent, group):
    """Works, and what each member sends to this one."""
    if device.type == "cuda":
        out = [torch.empty_like(sent[0]) for _ in sent]
        return dist.all_to_all(out, sent, group=group, async_op=True), out
    out = torch.empty_like(torch.stack(sent))
    work = dist.all_to_all_single(out, torch.stack(sent), group=group, async_op=True)
    return work, list(out)


class Pieces:
    """Boxes that go from rank to rank: between stages, and where no collective does it."""

    def __init__(self, spec, rank, number, group, copies):
        self.rank, self.number, self.group, self.copies = rank, number, group, copies
        self.stages, self.parts = (spec["from_stage"], spec["to_stage"]), spec["parts"]
        self.gives, self.takes = rank in spec["gives"], rank in spec["takes"]
        self.dtypes = [getattr(torch, name) for name in spec["dtypes"]]
        self.shapes = [{taker: shape for taker, shape in of_part}.get(rank) for of_part in spec["shapes"]]
        # of each part: (giver, taker, what of the giver's, where in the taker's), in one order on all ranks
        self.pieces = [[(giver, taker, of, to) for taker, of_taker in of_part for giver, of, to in of_taker]
                       for of_part in spec["pieces"]]
        self.under_way = {}

    def tag(self, m, part, piece):
        return ((self.number * self.copies + m) * len(self.parts) + part) * 4096 + piece

    def begin(self, m, take, sends, takes):
        state = self.under_way.setdefault(m, ([], [], []))
        operations = []
        for p, pieces in enumerate(self.pieces):
            x = take(self.parts[p][0]).contiguous() if sends else None
            for n, (giver, taker, of, to) in enumerate(pieces):
                if sends and giver == self.rank:
                    buffer = x.flatten() if of is None else x.as_strided(*of).contiguous().flatten()
                    if taker == self.rank:
                        state[1].append((p, n, buffer))
                    else:
                        state[2].append(buffer)  # until it is sent
                        operations.append((dist.isend, buffer, taker, self.tag(m, p, n)))
                elif takes and taker == self.rank and giver != self.rank:
                    size = functools.reduce(lambda a, b: a * b, self.shapes[p] if to is None else to[0], 1)
                    buffer = torch.empty(size, dtype=self.dtypes[p], device=device)
                    state[1].append((p, n, buffer))
                    operations.append((dist.irecv, buffer, giver, self.tag(m, p, n)))
        if device.type == "cuda" and operations:
            batch = [dist.P2POp(op, buffer, peer, self.group) for op, buffer, peer, _ in operations]
            state[0].extend(dist.batch_isend_irecv(batch))
        else:
            state[0].extend(op(buffer, peer, self.group, tag) for op, buffer, peer, tag in operations)

    def start(self, m, take, stage):
        is_crossing = self.stages[0] != self.stages[1]
        if not is_crossing or (self.gives and stage == self.stages[0]):
            self.begin(m, take, self.gives, self.takes)
        elif self.takes and not self.gives and stage == self.stages[1]:
            self.begin(m, take, False, True)

    def finish(self, m, give, stage):
        is_taker = self.takes and stage == self.stages[1]
        if not is_taker and (self.takes or not self.gives or stage != self.stages[0]):
            if not self.takes and stage == self.stages[1]:  # this rank has nothing of it
                for part, dtype, shape in zip(self.parts, self.dtypes, self.shapes):
                    give(part[-1], torch.zeros(shape, dtype=dtype, device=device))
            return
        works, received, _ = self.under_way.pop(m, ([], [], []))
        for work in works:
            work.wait()
        if not is_taker:
            return
        for p, (part, dtype, shape) in enumerate(zip(self.parts, self.dtypes, self.shapes)):
            mine = [(self.pieces[p][n][3], buffer) for q, n, buffer in received if q == p]
            if len(mine) == 1 and mine[0][0] is None:
                give(part[-1], mine[0][1].reshape(shape))
                continue
            y = torch.empty(shape, dtype=dtype, device=device)
            for to, buffer in mine:
                y.as_strided(*to).copy_(buffer.reshape(to[0]))
            give(part[-1], y)


def make_groups():
    """A process group for each set of ranks that a collective joins; all ranks make them in one order."""
    sets = set()
    for spec in program.TRANSFERS:
        if spec["kind"] == "pieces":
            continue
        first = program.STAGES[spec["stage"]]["first_rank"]
        for rank in range(count_along(spec["mesh"], [axis for axis, _ in spec["mesh"]])):
            sets.add(tuple(first + m for m in members_of(rank, spec["mesh"], spec["over"])))
    groups = {ranks: dist.new_group(list(ranks)) for ranks in sorted(sets)}
    of_pieces = []
    for spec in program.TRANSFERS:  # on GPUs each has links of its own, so that none waits for another's order
        is_own = spec["kind"] == "pieces" and device.type == "cuda"
        of_pieces.append(dist.new_group(sorted({*spec["gives"], *spec["takes"]})) if is_own else None)
    return groups, of_pieces


# ---- the step ----


def placed(leaf, x):
    """Where and how a leaf lies. What has four dims is a convolution's, whose kernels ask for strides, also of dims of one."""
    x = x.clone(memory_format=torch.channels_last) if x.dim() == 4 and goes_by_pixels(x) else x.contiguous()
    return evicted(x) if leaf.get("space") == "host" else x


class Stage:
    """What a rank holds of a stage: leaves from step to step, other values until nobody reads them."""

    def __init__(self, spec, rank, compiled, trace, number):
        self.spec, self.rank = spec, rank - spec["first_rank"]
        module = importlib.import_module(spec["module"])
        names = vars(module) if trace is None else trace.functions_of(module, number, spec)
        self.functions = {name: f for name, f in names.items() if name in spec["functions"]}
        if compiled:
            self.functions = {name: torch.compile(f, dynamic=False) for name, f in self.functions.items()}
        self.leaves, self.of_step = {}, {}
        self.of_batch = [{} for _ in range(program.MICRO_BATCHES)]

    def table(self, name, m):
        if name in self.spec["leaves"]:
            return self.leaves
        return self.of_step if name in self.spec["step_values"] else self.of_batch[m]

    def shape_of(self, value):
        return [end - begin for begin, end in box_of(value, self.rank)]

    def clear_accumulators(self):
        for name, leaf in self.spec["leaves"].items():
            if leaf["kind"] == "accumulator":
                dtype = getattr(torch, leaf["dtype"])
                self.leaves[name] = placed(leaf, torch.zeros(self.shape_of(leaf), dtype=dtype, device=device))

    def replace(self, phase, m):
        new = [(leaf, self.table(value, m)[value]) for leaf, value, when in self.spec["updates"] if when == phase]
        self.leaves.update(new)


class Rank:
    """One process: its stages and its tasks."""

    def __init__(self, rank, compiled=False, trace=None):
        self.rank, self.trace = rank, trace
        self.tasks = program.TASKS[rank // (program.RANKS // len(program.TASKS))]
        mine = {number for task in self.tasks for number in task[-2:-1]}
        self.stages = {n: Stage(spec, rank, compiled, trace, n) for n, spec in enumerate(program.STAGES)
                       if 0 <= rank - spec["first_rank"] < spec["ranks"] and n in mine}
        groups, of_pieces = make_groups() if program.RANKS > 1 else ({}, [None] * len(program.TRANSFERS))
        self.transfers = []
        for number, spec in enumerate(program.TRANSFERS):
            if spec["kind"] == "pieces":
                self.transfers.append(Pieces(spec, rank, number, of_pieces[number], program.MICRO_BATCHES))
            elif spec["stage"] in self.stages:
                self.transfers.append(Collective(spec, program.STAGES[spec["stage"]], rank, groups))
            else:
                self.transfers.append(None)

    def step(self, batch_part):
        """Runs one step; `batch_part(input, box)` gives this rank's part of the batch. Returns the scalars that this rank
        is the first to have, by name: means over micro-batches."""
        self.batch_part, self.scalars = batch_part, {}
        for task in self.tasks:
            getattr(self, task[0])(*task[1:])
        for stage in self.stages.values():
            stage.of_step.clear()
            for values in stage.of_batch:
                values.clear()
        return {name: torch.stack(xs).double().mean().item() for name, xs in self.scalars.items()}

    def run(self, section, is_last, number, m):
        if self.trace is None:
            return self.run_items(section, is_last, m)
        self.trace.micro_batch, begin = m, self.trace.now()
        self.run_items(section, is_last, m)
        self.trace.add("schedule", f"{section.split()[0]} {m}", begin, number, {})

    def run_items(self, section, is_last, m):
        for item in program.SECTIONS[section]:
            if item[0] == "last":  # only of the last micro-batch that runs it
                if is_last:
                    getattr(self, item[1])(*item[2:], m)
            else:
                getattr(self, item[0])(*item[1:], m)

    def call(self, function, arguments, results, dropped, number, m):
        stage = self.stages[number]
        values = [stage.table(name, m)[name] for name in arguments]
        for name in dropped:
            del stage.table(name, m)[name]
        made = stage.functions[function](*values)
        for name, value in zip(results, made):
            stage.table(name, m)[name] = value

    def start(self, transfer, dropped, number, m):
        stage, begin = self.stages[number], self.trace and self.trace.now()
        if self.transfers[transfer] is not None:
            self.transfers[transfer].start(self.turn(transfer, m), lambda name: stage.table(name, m)[name], number)
        if self.trace:
            self.trace.started(transfer, m, begin)
        for name in dropped:
            del stage.table(name, m)[name]

    def finish(self, transfer, number, m):
        stage, begin = self.stages[number], self.trace and self.trace.now()

        def give(name, value):
            stage.table(name, m)[name] = value

        if self.transfers[transfer] is not None:
            self.transfers[transfer].finish(self.turn(transfer, m), give, number)
        if self.trace:
            self.trace.finished(transfer, m, number, begin, self.transfers[transfer] is not None)

    @staticmethod
    def turn(transfer, m):
        """What is not of a micro-batch there is once a step."""
        return 0 if program.TRANSFERS[transfer].get("once") else m

    def fill(self, number, m):
        stage = self.stages[number]
        for name, value in stage.spec["inputs"].items():
            box = box_of(value, stage.rank)
            if box:
                rows = m * value["shape"][0]
                box[0] = (box[0][0] + rows, box[0][1] + rows)
            stage.table(name, m)[name] = self.batch_part(value["name"], box)

    def hand_out(self, phase, number, m):
        stage = self.stages[number]
        for value, name, when in stage.spec["scalars"]:
            if when == phase and stage.rank == 0:
                self.scalars.setdefault(name, []).append(stage.table(value, m)[value])

    def replace(self, phase, number, m):
        self.stages[number].replace(phase, m)

    def clear(self, number, m):
        self.stages[number].clear_accumulators()
