"""Training that goes on from a checkpoint of the other side: MindSpore 2.10's here, and ours there, with every optimizer.

    resumed.py                  both ways; the losses of three more steps are the same to 1e-5
    resumed.py save FOLDER      three steps, a checkpoint of each optimizer, three more (what both sides run)
    resumed.py load FOLDER      the checkpoints, three more
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PEER = Path.home() / ".cache/peers/ms/bin/python"
rates = [0.1, 0.09, 0.08, 0.07, 0.06, 0.05]


def optimizers(nn):
    return {
        "sgd": lambda p: nn.SGD(p, 0.1), "sgd_momentum": lambda p: nn.SGD(p, 0.1, momentum=0.9, weight_decay=0.01),
        "momentum": lambda p: nn.Momentum(p, 0.1, 0.9), "momentum_rates": lambda p: nn.Momentum(p, rates, 0.9),
        "adam": lambda p: nn.Adam(p, 0.1), "adam_rates": lambda p: nn.Adam(p, rates),
        "amsgrad": lambda p: nn.Adam(p, 0.1, use_amsgrad=True),
        "adam_weight_decay": lambda p: nn.AdamWeightDecay(p, 0.1), "rmsprop": lambda p: nn.RMSProp(p, 0.01),
        "centered": lambda p: nn.RMSProp(p, 0.01, centered=True), "adagrad": lambda p: nn.Adagrad(p, learning_rate=0.1),
        "adamax": lambda p: nn.AdaMax(p), "adadelta": lambda p: nn.Adadelta(p), "rprop": lambda p: nn.Rprop(p, 0.01),
        "asgd": lambda p: nn.ASGD(p), "proximal": lambda p: nn.ProximalAdagrad(p, 0.1),
        "groups": lambda p: nn.Momentum([{"params": p[:2], "lr": 0.05}, {"params": p[2:], "lr": rates}], 0.1, 0.9)}


def losses(what: str, folder: str, names=None) -> dict[str, list[float]]:
    """Three losses by optimizer, behind saving or loading `FOLDER/NAME.ckpt`."""
    import mindspore as ms
    import numpy as np
    from mindspore import Tensor, nn, ops

    class Net(nn.Cell):
        def __init__(self, rng):
            super().__init__()
            w = [Tensor(rng.normal(size=s).astype(np.float32)) for s in ((3, 4), 3, (2, 3), 2)]
            self.fc1 = nn.Dense(4, 3, weight_init=w[0], bias_init=w[1])
            self.fc2 = nn.Dense(3, 2, weight_init=w[2], bias_init=w[3])

        def construct(self, x):
            return self.fc2(ops.relu(self.fc1(x)))

    ms.set_context(mode=ms.GRAPH_MODE)
    rng = np.random.default_rng(1)
    x, y = (Tensor(rng.normal(size=(5, n)).astype(np.float32)) for n in (4, 2))
    out = {}
    for name, make in optimizers(nn).items():
        if names and name not in names:
            continue
        net = Net(np.random.default_rng(0 if what == "save" else 7))
        step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), make(net.trainable_params()))
        step.set_train()
        path = os.path.join(folder, name + ".ckpt")
        if what == "save":
            for _ in range(3):
                step(x, y)
            ms.save_checkpoint(step, path, crc_check=True, append_dict={"epoch_num": 3, "said": name})
        else:
            found = ms.load_checkpoint(path, crc_check=True)
            lacking, left = ms.load_param_into_net(step, found, strict_load=True)
            if found["said"] != name or lacking or set(left) - {"epoch_num", "said"}:
                raise SystemExit(f"{name}: the checkpoint lacks {lacking}, and {left} of it are not taken")
        out[name] = [float(step(x, y).asnumpy()) for _ in range(3)]
    return out


def main() -> int:
    if len(sys.argv) == 3:
        print(json.dumps(losses(*sys.argv[1:])))
        return 0
    if not PEER.exists():
        print(f"skipped: there is no MindSpore ({PEER})")
        return 77
    ours, theirs = ["/usr/bin/python3", "-m", "shardwright.run"], [str(PEER)]
    different = 0
    for saving, loading, way in ((theirs, ours, "from there"), (ours, theirs, "from here")):
        with tempfile.TemporaryDirectory() as folder:
            known, found = (json.loads(subprocess.run([*side, __file__, what, folder], check=True, stdout=subprocess.PIPE,
                                                      stderr=subprocess.DEVNULL).stdout.splitlines()[-1])
                            for side, what in ((saving, "save"), (loading, "load")))
        for name in known:
            far = max(abs(a - b) / abs(a) for a, b in zip(known[name], found[name]))
            different += far > 1e-5
            print(f"{way} {name}: {far:.1e}")
    print(f"{different} are different")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
