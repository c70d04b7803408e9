"""The small programs of tests/outside/mindspore by our names, beside what MindSpore 2.10 gave for them."""

import json
import os
import subprocess
import sys

import pytest
from mindspore_fixtures import environment, root


@pytest.mark.parametrize("devices", [1, 4])
def test_small_programs_give_what_mindspore_gives(tmp_path, devices):
    """None differs but those that known.txt names; what is lacking does not become more. On 4 devices in graph mode."""
    verdicts = tmp_path / "verdicts.json"
    done = subprocess.run([sys.executable, root / "tests" / "outside" / "mindspore" / "compare.py", "--json", verdicts],
                          env={**os.environ, **environment, "SHARDWRIGHT_DEVICES": str(devices)}, capture_output=True, text=True, timeout=300)
    found = json.loads(verdicts.read_text())
    assert "30 of 30 trained networks have the same losses" in done.stdout, done.stdout[-3000:] + done.stderr[-2000:]
    assert done.returncode == 0, [f"{p}: {v['why']}" for p, v in found.items() if v["verdict"] == "different"]
    counts = {kind: sum(v["verdict"] == kind for v in found.values()) for kind in ("equal", "refused", "lacking")}
    assert counts["equal"] >= 1429 and counts["lacking"] <= 3 and counts["refused"] <= 2, counts


def test_a_program_that_differs_is_told(tmp_path):
    sys.path.insert(0, str(root / "tests" / "outside" / "mindspore"))
    import compare

    theirs = {"out": [["float32", [2], [1.0, 2.0]]], "grad": [["float32", [2], [0.5, 0.5]]]}
    assert compare.verdict(theirs, theirs) == ("equal", "")
    for part, wrong in (("out", [["float32", [2], [1.0, 2.0001]]]), ("out", [["float64", [2], [1.0, 2.0]]]),
                        ("grad", [["float32", [2], [0.5, -0.5]]]), ("grad", [])):
        assert compare.verdict({**theirs, part: wrong}, theirs)[0] == "different"
    assert compare.verdict({"out": theirs["out"], "grad_error": "x"}, theirs) == ("different", "grad: x")
    assert compare.verdict({"error": "AttributeError: 'mindspore.ops.x' is not in this front end; there are"}, theirs)[0] == "lacking"
    assert compare.verdict({"error": "ValueError: mode 'x' is unknown"}, theirs)[0] == "refused"
    assert compare.verdict(theirs, {"error": "RuntimeError"})[0] == "not there either"
