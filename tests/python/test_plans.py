"""Plans before and after a step: what is asked about takes no memory, and is what runs."""

import html
import json
import os
import subprocess
from pathlib import Path

import numpy
import pytest

import shardwright as sw


build = Path(os.environ.get("SHARDWRIGHT_BUILD", Path(__file__).parents[2] / "build" / "release"))


class Net:
    def __init__(self):
        self.hidden, self.out = sw.nn.Dense(64, 96), sw.nn.Dense(96, 10)

    def __call__(self, x):
        return self.out(sw.ops.relu(self.hidden(x)))


def loss(net, x, label):
    return sw.ops.cross_entropy(net(x), label)


batch = numpy.ones((32, 64), numpy.float32), numpy.zeros(32, numpy.int32)
specs = sw.Spec((32, 64)), sw.Spec((32,), "int32")


@pytest.mark.parametrize("micro_batches", [1, 4])
def test_a_plan_of_shapes_is_that_of_the_step(micro_batches):
    step = sw.train_step(loss, Net(), sw.optim.momentum(0.1), devices=8, micro_batches=micro_batches)
    planned = step.plan(*specs)
    with pytest.raises(ValueError, match="has not run"):
        step.explain()
    step(*batch)
    done = step.explain()
    drop = "search_seconds"
    assert {k: v for k, v in json.loads(planned.json).items() if k != drop} == {
        k: v for k, v in json.loads(done.json).items() if k != drop}
    assert (planned.step_seconds, planned.memory) == (done.step_seconds, done.memory)
    assert "search auto" in planned.table


def test_a_plan_takes_no_memory_for_a_network_beyond_it():
    planned = sw.plan("gpt:layers=4,hidden=8192,heads=64,seq=1024,vocab=50304", sw.optim.adamw(), devices=8, cluster="h100:8",
                      precision="bf16", global_batch=8)
    assert planned.memory_bytes > 2 ** 30
    assert planned.memory["parameters"] * 8 > 3e9
    with pytest.raises(sw.ShardwrightError, match="memory_cap"):
        sw.plan("gpt:layers=4,hidden=8192,heads=64,seq=1024,vocab=50304", devices=1, memory_cap="1GB")


def test_plans_are_files_and_pages(tmp_path):
    step = sw.train_step(loss, Net(), sw.optim.sgd(0.1), devices=4, search="recursive")
    planned = step.plan(*specs)
    planned.save(str(tmp_path / "plan.json"))
    again = sw.train_step(loss, Net(), sw.optim.sgd(0.1), devices=4, plan=str(tmp_path / "plan.json")).plan(*specs)
    assert again.json == planned.json
    planned.save(str(tmp_path / "plan.html"))
    page = (tmp_path / "plan.html").read_text()
    for part in ("<table>", '<i class="key kind-activations"></i>activations', planned.table.split("\n")[0], "&quot;x&quot;: &quot;[-, -]&quot;",
                 "shardwright.train_step(loss, ..., shardwright.optim.sgd(lr=0.1, weight_decay=0.0), precision=&#39;f32&#39;, "
                 "devices=&#39;4&#39;"):
        assert part in page.replace('<span class="word">', "").replace("</span>", "")
    assert "http" not in page  # it needs nothing from elsewhere
    assert f'data-json="/step_seconds" data-value="{planned.step_seconds}"' in page
    # In a notebook it stands in a frame, whose text is that page.
    framed = planned._repr_html_()
    assert framed.startswith("<iframe ") and html.unescape(framed.split('srcdoc="')[1].split('"')[0]) == page


def test_pages_say_what_is_assumed(tmp_path):
    for options, is_told in (({}, True), ({"global_batch": 64}, False)):
        sw.plan("ffn", devices=2, **options).save(str(tmp_path / "plan.html"))
        assert ("batch of 32 samples is assumed" in (tmp_path / "plan.html").read_text()) == is_told


def command(*words):
    out = subprocess.run([build / "shardwright", *words], capture_output=True, text=True, check=False)
    return json.loads(out.stdout)


@pytest.mark.parametrize("options", [{}, {"search": "recursive"}, {"fix": "tp=4"}])
def test_plans_say_what_binds_them_as_the_command_does(options, tmp_path):
    model = "gpt:layers=2,hidden=256,heads=8,vocab=1024,seq=256,batch=16"
    planned = sw.plan(model, sw.optim.sgd(0.1), cluster="a100-80g:8", precision="bf16", **options)
    told = command("plan", model, "--cluster", "a100-80g:8", "--optimizer", "sgd", "--lr", "0.1", "--precision", "bf16",
                   *(word for key, value in options.items() for word in ("--" + key, value)), "--json")
    # Here the rate is told step by step, which costs the reading of a scalar.
    assert planned.step_seconds == pytest.approx(told["step_seconds"], rel=1e-5)
    assert planned.binding == told["binding"]
    # Either may look at a few that the other does not: the rate is told, and the command searches micro-batches, too.
    assert planned.alternatives[0]["plan"] in {other["plan"] for other in told["alternatives"]}
    # What only one of them has become a program of is known less well by the other.
    both = [(here, there) for here in planned.alternatives for there in told["alternatives"]
            if all(here[key] == there[key] for key in ("plan", "known_by", "reason"))]
    assert both
    for here, there in both:
        assert here == {**there, "step_seconds": pytest.approx(there["step_seconds"], rel=0.05),
                        "memory_bytes": pytest.approx(there["memory_bytes"], rel=0.3)}
    # A number of micro-batches that is not asked for is kept here, and searched there: more is dropped.
    for here in planned.dropped:
        there = next(d for d in told["dropped"] if d["reason"] == here["reason"])
        assert here.keys() == there.keys() and here["plans"][0].keys() == there["plans"][0].keys()
    assert sum(d["count"] for d in planned.dropped) <= sum(d["count"] for d in told["dropped"])
    assert (planned.binding_by or {}).keys() == (told["binding_by"] or {}).keys()
    planned.save(str(tmp_path / "plan.html"))
    assert "What lost:" in (tmp_path / "plan.html").read_text()


def test_of_a_plan_that_was_a_file_nothing_is_known(tmp_path):
    made = sw.train_step(loss, Net(), sw.optim.sgd(0.1), devices=4).plan(*specs)
    assert made.binding in ("time", "memory", "fixed")
    made.save(str(tmp_path / "plan.json"))
    read = sw.train_step(loss, Net(), sw.optim.sgd(0.1), devices=4, plan=str(tmp_path / "plan.json")).plan(*specs)
    assert (read.binding, read.binding_by, read.alternatives, read.dropped) == (None, None, [], [])
    read.save(str(tmp_path / "plan.html"))
    assert "Binding:" not in (tmp_path / "plan.html").read_text()


def operators(planned):
    return {op["name"]: op["strategy"] for op in json.loads(planned.json)["operators"]}


def test_strategies_come_from_dicts_and_files_and_go_into_them(tmp_path, capfd):
    def planned(**options):
        return sw.train_step(loss, Net(), sw.optim.sgd(0.1), devices=4, search="recursive", **options).plan(*specs)
    own = operators(planned())
    said = planned(strategy={"hidden.matmul": ((1, 4), (4, 1))}, save_strategy=str(tmp_path / "s.json"))
    assert operators(said)["hidden.matmul"] != own["hidden.matmul"]
    saved = json.loads((tmp_path / "s.json").read_text())
    assert saved["parallel_strategy_item"]["hidden.matmul"]["parallel_strategy"] == [[1, 4], [4, 1]]
    for again in (planned(strategy=str(tmp_path / "s.json")), planned(strategy=saved)):
        parts = {name: [len(axes) for axes in split.values()] for name, split in operators(again).items()}
        assert parts == {name: [len(axes) for axes in split.values()] for name, split in operators(said).items()}
        assert again.step_seconds == said.step_seconds
    planned(strategy={"hidden.matmul": ((4, 1), (1, 1))}, save_strategy=str(tmp_path / "s.ckpt"))
    assert operators(planned(strategy=str(tmp_path / "s.ckpt")))["hidden.matmul"]
    step = sw.train_step(loss, Net(), sw.optim.sgd(0.1), devices=4, strategy=saved)
    assert numpy.isfinite(float(step(*batch)))


@pytest.mark.parametrize("options, what", [
    ({"strategy": {"hiden.matmul": ((1, 4), (4, 1))}}, "hidden.matmul"),
    ({"strategy": {"hidden.matmul": ((1, 4), (4, 1))}, "devices": 2}, "2"),
    ({"strategy": "there-is-none.json"}, "there-is-none.json"),
    ({"strategy": {"hidden.matmul": 4}}, "strategy: "),
    ({"strategy": {"hidden.matmul": ((1, 4), (4, 1))}, "fix": "tp=4"}, "exclude each other"),
    ({"strategy": {"hidden.matmul": ((1, 4), (4, 1))}, "search": "auto"}, "search auto"),
    ({"strategy": {"hidden.matmul": ((1, 4), (4, 1))}, "parallel": "data_parallel"}, "data_parallel"),
    ({"strategy": {"hidden.matmul": ((1, 4), (4, 1))}, "annotate": {"hidden.matmul": {"in": [[4, 1], [1, 1]]}}}, "annotate"),
    ({"save_strategy": "/there/is/none.json"}, "/there/is/none.json")])
def test_strategies_that_cannot_be_are_told(options, what):
    with pytest.raises((sw.ShardwrightError, OSError), match=what):
        sw.train_step(loss, Net(), sw.optim.sgd(0.1), **{"devices": 4, **options}).plan(*specs)


def test_a_function_without_an_optimizer_has_a_plan_too():
    scores = sw.jit(lambda net, x: net["w"] * x, devices=2)
    w = sw.Parameter(numpy.float32([[1.0, 2.0]]), "w")
    assert "mesh" in scores.plan({"w": w}, sw.Spec((4, 2))).table
    x = numpy.ones((4, 2), numpy.float32)
    assert scores({"w": w}, x).numpy().tolist() == [[1.0, 2.0]] * 4
    w.set(numpy.float32([[3.0, 4.0]]))
    assert scores({"w": w}, x).numpy().tolist() == [[3.0, 4.0]] * 4
    other = sw.Parameter(numpy.float32([[5.0, 6.0]]), "w")
    assert scores({"w": other}, x).numpy().tolist() == [[5.0, 6.0]] * 4
    assert "mesh" in scores.explain().table
    with pytest.raises(TypeError, match="'x' is Spec"):
        scores({"w": w}, sw.Spec((4, 2)))


def test_trees_of_other_structure_are_other_calls():
    pick = sw.jit(lambda x: x["a"] - x["b"] if "b" in x else x["a"] + x["c"])
    one, two = numpy.float32([1.0]), numpy.float32([2.0])
    assert pick({"a": one, "b": two}).numpy().tolist() == [-1.0]
    assert pick({"a": one, "c": two}).numpy().tolist() == [3.0]


def test_errors_say_what_they_are_between():
    x = numpy.ones((4, 8), numpy.float32)
    step = sw.jit(lambda x: sw.ops.matmul(x, numpy.ones((8, 8), numpy.float32)), devices=2,
                  annotate='{"matmul": {"in": [[4, 1], [1, 2]]}}')
    with pytest.raises(sw.ShardwrightError, match="needs 8 devices") as raised:
        step(x)
    error = raised.value
    assert (error.operator, error.key, error.wanted, error.given) == ("matmul", "devices", "8", "2")
    with pytest.raises(sw.ShardwrightError) as raised:
        sw.jit(lambda x: x + 1, devices="many")(x)
    assert raised.value.key is None


@pytest.mark.parametrize("options, what", [
    ({"fix": "up=recompute", "annotate": {"up": {"recompute": False}}}, "leave one out"),
    ({"set": "dp=4,up=recompute", "annotate": {"up": {"recompute": False}}}, "leave one out"),
    ({"set": "dp=4", "fix": "dp=2"}, "exclude each other"),
    ({"strategy": {"hidden.matmul": ((1, 4), (4, 1))}, "set": "dp=4"}, "exclude each other"),
    ({"stages": 2, "fix": "pp=4"}, "pp=4 is said, but stages says pp=2"),
    ({"set": "dp=4,micro_batches=2", "micro_batches": "4"}, "leave one out"),
    ({"set": "dp=4,global_batch=16,micro_batch=2"}, "are for the options"),
    ({"parallel": "data_parallel", "fix": "zero=1"}, "does not search"),
])
def test_wishes_that_contradict_each_other_are_refused_as_the_command_does(options, what):
    with pytest.raises(sw.ShardwrightError, match=what):
        sw.plan("ffn", devices=4, **options)


@pytest.mark.parametrize("to", ["torch", "jax", "jax:constraints"])
def test_a_plan_is_written_for_other_engines(to, tmp_path):
    planned = sw.train_step(loss, Net(), sw.optim.momentum(0.1), devices=4).plan(*specs)
    planned.emit(to, str(tmp_path / "package"))
    written = {path.name: path.read_text() for path in (tmp_path / "package").iterdir()}
    files = {"model.py", "program.py", "operators.py", "parallel.py", "tensors.py", "data.py", "run.py",
             "arrays.py", "train.py"}
    assert files | ({"timeline.py"} if to == "torch" else set()) == set(written)
    for name, text in written.items():
        compile(text, name, "exec")
    assert "def forward" in written["model.py"] and "RANKS = 4\n" in written["program.py"]


def test_a_plan_is_written_as_text_or_says_for_whom_it_could_be(tmp_path):
    planned = sw.plan("ffn", devices=2)
    planned.emit("shardy", str(tmp_path / "plan.mlir"))
    assert "sdy.mesh @mesh" in (tmp_path / "plan.mlir").read_text()
    with pytest.raises(sw.ShardwrightError, match="there are torch, jax, jax:constraints, shardy"):
        planned.emit("caffe", str(tmp_path / "package"))


GRID = "dp=2,tp=2,pp=2,micro_batches=8,zero=1,sequence_parallel=1"
DECODER = "llama:layers=4,hidden=64,heads=8,ffn=128,vocab=256,seq=32"


def test_a_plan_goes_to_others_and_comes_back(tmp_path, capfd):
    planned = sw.plan(DECODER, cluster="h100:8", set=GRID, global_batch=16)
    path = str(tmp_path / "megatron.sh")
    text = planned.export("megatron", path)
    assert "--tensor-model-parallel-size 2" in text and Path(path).read_text() == text
    assert "megatron does not carry: zero_threshold=65536" in capfd.readouterr().err
    assert "PartitionSpec as P" in planned.export("jax")
    back = sw.import_plan(path, cluster="h100:8")
    mine, theirs = json.loads(planned.json), json.loads(back.json)
    assert [theirs[key] for key in ("micro_batches", "zero", "schedule")] == [mine[key] for key in ("micro_batches", "zero", "schedule")]
    assert theirs["framework"] == "megatron-lm" and back.step_seconds > 0 and back.memory_bytes > 0
    with pytest.raises(sw.ShardwrightError, match="there are accelerate, deepspeed"):
        planned.export("caffe")
    with pytest.raises(OSError):
        sw.import_plan(str(tmp_path / "none.sh"), cluster="h100:8")
    Path(path).write_text(text.replace("--global-batch-size 16", "--global-batch-size 15"))
    with pytest.raises(sw.ShardwrightError, match="megatron.sh: --global-batch-size 15: should be a multiple"):
        sw.import_plan(path, cluster="h100:8")


def test_advice_says_what_a_recipe_takes_and_what_would_be_better(tmp_path):
    path = str(tmp_path / "recipe.sh")
    sw.plan(DECODER, cluster="h100:8", set=GRID, global_batch=16).export("megatron", path)
    advice = sw.advise(path, cluster="h100:8")
    assert advice.fits and advice.json["from"] == "megatron"
    assert repr(advice).startswith(path + " (megatron): ") and "binding   " in repr(advice)
    assert advice.recipe.step_seconds == advice.json["step_seconds"]
    assert advice.better is not None and advice.better.step_seconds == advice.json["better"]["step_seconds"]
    assert advice.better.step_seconds < advice.recipe.step_seconds
