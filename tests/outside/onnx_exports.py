#!/usr/bin/env python3
"""Networks exported by PyTorch's default exporter: Shardwright trains them to PyTorch's losses, or says what the export lost.

  onnx_exports.py SHARDWRIGHT [--devices 1,4] [NETWORK...]

Each is exported as the exporter does by default and with optimize=False, and trained by three steps of SGD in f64 here, from
the file's weights, and by PyTorch, in training mode; batch norms of the file are made to train by `training=1`. The losses
must be equal to 1e-6, relative; where the exporter's optimizer has merged, folded or dropped parameters, the file must be told
so instead. Networks that need operators that are not supported are named and counted.

Runs itself with a Python that has torch, torchvision, transformers, onnx and onnxscript of PyPI: SHARDWRIGHT_TORCH_PYTHON or
~/.cache/peers/pt/bin/python; without one it says so and ends with status 77.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

from with_pytorch import with_pytorch

with_pytorch("torch.export, torchvision, transformers, onnx, onnxscript", "torch with torchvision, transformers, onnx and onnxscript")
ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "reference"))

import logging  # noqa: E402

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torchvision.models as tv  # noqa: E402
import transformers as hf  # noqa: E402
from make_reference import save  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

torch.set_num_threads(1)
logging.disable(logging.WARNING)
BATCH, STEPS, RATE, CLASSES = 4, 3, 0.01, 10


class Only(nn.Module):
    """A network of Hugging Face's, its first output alone."""

    def __init__(self, net, take=0, **options):
        super().__init__()
        self.net, self.take, self.options = net, take, options

    def forward(self, x):
        return self.net(x, **self.options)[self.take]


class Encoder(nn.Module):
    def __init__(self, width=32, layers=2):
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, batch_first=True)
        self.body, self.head = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False), nn.Linear(width, CLASSES)

    def forward(self, x):
        return self.head(self.body(x))


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.body, self.head = kind(16, 24, 2, batch_first=True, bidirectional=True), nn.Linear(48, CLASSES)

    def forward(self, x):
        return self.head(self.body(x)[0])


class UNet(nn.Module):
    """Down and up again: by a transposed convolution, or by resizing."""

    def __init__(self, resizes):
        super().__init__()
        self.down, self.inner = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.up = nn.Conv2d(16, 8, 1) if resizes else nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.out, self.resizes = nn.Conv2d(16, 3, 3, padding=1), resizes

    def forward(self, x):
        a = F.relu(self.down(x))
        b = F.relu(self.inner(F.max_pool2d(a, 2)))
        b = F.interpolate(self.up(b), scale_factor=2.0, mode=self.resizes) if self.resizes else self.up(b)
        return self.out(torch.cat([a, b], 1))


class Tcn(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv1d(6, 16, 3, dilation=1), nn.Conv1d(16, 16, 3, dilation=2)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x):
        y = F.relu(self.a(F.pad(x, (2, 0))))
        return self.head((F.relu(self.b(F.pad(y, (4, 0)))) + y).mean(2))


class WideDeep(nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.table = nn.Linear(20, 1), nn.Embedding(50, 8)
        self.deep = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, ids):
        return self.wide(ids.to(self.wide.weight.dtype).repeat(1, 5) / 50) + self.deep(self.table(ids).flatten(1))


class Dlrm(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(30, 8) for _ in range(4))
        self.top = nn.Linear(16 + 8, CLASSES)

    def forward(self, ids):
        rows = torch.stack([t(ids[:, i]) for i, t in enumerate(self.tables)], 1)
        return self.top(torch.cat([(rows @ rows.transpose(1, 2)).flatten(1), rows.sum(1)], 1))


class Experts(nn.Module):
    """A dense mixture: all experts, weighed by the two largest gates."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(16, 4)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, CLASSES)) for _ in range(4))

    def forward(self, x):
        values, at = self.gate(x).topk(2, -1)
        weights = torch.zeros(x.shape[0], 4, dtype=x.dtype).scatter(1, at, values.softmax(-1))
        return (torch.stack([e(x) for e in self.experts], 1) * weights[:, :, None]).sum(1)


class Rms(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.n, self.b = nn.Linear(16, 32), nn.RMSNorm(32), nn.Linear(32, CLASSES)
        self.scale = nn.Parameter(torch.tensor(1.5))

    def forward(self, x):
        return self.b(F.silu(self.n(self.a(x) * self.scale) ** 3))


class Norms(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(4, 8), nn.PReLU(), nn.Conv2d(8, 8, 3), nn.InstanceNorm2d(8),
                                  nn.Mish(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, CLASSES))

    def forward(self, x):
        return self.body(x)


def vit():
    return tv.VisionTransformer(image_size=32, patch_size=8, num_layers=2, num_heads=4, hidden_dim=32, mlp_dim=64, num_classes=CLASSES)


def swin():
    return tv.SwinTransformer([4, 4], 16, [2, 2], [2, 4], [4, 4], stochastic_depth_prob=0.0, num_classes=CLASSES)


def convnext():
    from torchvision.models.convnext import CNBlockConfig
    return tv.ConvNeXt([CNBlockConfig(16, 32, 2), CNBlockConfig(32, None, 2)], stochastic_depth_prob=0.0, num_classes=CLASSES)


def whisper_encoder():
    c = hf.WhisperConfig(d_model=32, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=64, num_mel_bins=8,
                         max_source_positions=12, decoder_layers=1, decoder_ffn_dim=64, decoder_attention_heads=4, dropout=0.0)
    return Only(hf.models.whisper.modeling_whisper.WhisperEncoder(c), return_dict=False)


def decoder(kind, **more):
    config = {"gpt2": hf.GPT2Config, "llama": hf.LlamaConfig, "qwen3": hf.Qwen3Config}[kind]
    sizes = dict(n_embd=32, n_layer=2, n_head=4, n_positions=16, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0) if kind == "gpt2" \
        else dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=64,
                  max_position_embeddings=16, **({"head_dim": 8} if kind == "qwen3" else {}))
    c = config(vocab_size=50, use_cache=False, attn_implementation="eager", tie_word_embeddings=kind == "gpt2", **sizes)
    return Only(hf.AutoModelForCausalLM.from_config(c, attn_implementation="eager"), use_cache=False, return_dict=False)


def bert():
    c = hf.BertConfig(vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, num_labels=CLASSES,
                      hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, max_position_embeddings=16)
    return Only(hf.BertForSequenceClassification._from_config(c, attn_implementation="eager"), return_dict=False)


def hf_vit():
    c = hf.ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32, patch_size=8,
                     num_labels=CLASSES, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return Only(hf.ViTForImageClassification._from_config(c, attn_implementation="eager"), return_dict=False)


def images(size=32):
    return lambda g: g.standard_normal((BATCH, 3, size, size))


def vectors(*shape):
    return lambda g: g.standard_normal((BATCH, *shape))


def words(length, count=50):
    return lambda g: g.integers(0, count, (BATCH, length))


NETWORKS = {
    "resnet18": (lambda: tv.resnet18(num_classes=CLASSES), images(64)),
    "mobilenet_v3": (lambda: tv.mobilenet_v3_small(num_classes=CLASSES, dropout=0.0), images(64)),
    "efficientnet": (lambda: tv.efficientnet_b0(num_classes=CLASSES, dropout=0.0, stochastic_depth_prob=0.0), images(64)),
    "shufflenet": (lambda: tv.shufflenet_v2_x0_5(num_classes=CLASSES), images(64)),
    "regnet": (lambda: tv.regnet_y_400mf(num_classes=CLASSES), images(64)),
    "googlenet": (lambda: tv.GoogLeNet(num_classes=CLASSES, aux_logits=False, init_weights=False, dropout=0.0), images(64)),
    "densenet": (lambda: tv.DenseNet(8, (2, 2), 16, num_classes=CLASSES), images(32)),
    "vgg": (lambda: nn.Sequential(tv.vgg.make_layers([8, "M", 16, "M"]), nn.Flatten(), nn.Linear(16 * 64, CLASSES)), images(32)),
    "convnext": (convnext, images(32)),
    "tv_vit": (vit, images(32)),
    "hf_vit": (hf_vit, images(32)),
    "swin": (swin, images(32)),
    "whisper_encoder": (whisper_encoder, vectors(8, 24)),
    "encoder": (Encoder, vectors(6, 32)),
    "gpt2": (lambda: decoder("gpt2"), words(12)),
    "llama": (lambda: decoder("llama"), words(12)),
    "qwen3": (lambda: decoder("qwen3"), words(12)),
    "bert": (bert, words(12)),
    "wide_deep": (WideDeep, words(4)),
    "dlrm": (Dlrm, words(4, 30)),
    "moe": (Experts, vectors(16)),
    "tcn": (Tcn, vectors(6, 12)),
    "rms": (Rms, vectors(16)),
    "norms": (Norms, images(16)),
    "lstm": (lambda: Recurrent(nn.LSTM), vectors(5, 16)),
    "gru": (lambda: Recurrent(nn.GRU), vectors(5, 16)),
    "unet_bilinear": (lambda: UNet("bilinear"), images(16)),
    "unet_nearest": (lambda: UNet("nearest"), images(16)),
    "unet_transposed": (lambda: UNet(None), images(16)),
    "super_resolution": (lambda: nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 12, 3, padding=1), nn.PixelShuffle(2)),
                         images(8)),
    "conv3d": (lambda: nn.Sequential(nn.Conv3d(2, 4, 3, padding=1), nn.ReLU(), nn.MaxPool3d(2), nn.Flatten(), nn.Linear(4 * 8, CLASSES)),
               vectors(2, 4, 4, 4)),
}


def trained(net, start, inputs, labels):
    net.load_state_dict(start)
    net = net.double().train()
    optimizer, losses = torch.optim.SGD(net.parameters(), lr=RATE), []
    for x, y in zip(inputs, labels):
        optimizer.zero_grad()
        loss = F.mse_loss(net(torch.tensor(x)), torch.tensor(y))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def own_losses(shardwright, path, data, devices, keys):
    command = [shardwright, "train", path + (":" + ",".join(keys) if keys else ""), "--loss", "mean_squared_error", "--data", data, "--precision",
               "f64", "--steps", str(STEPS), "--json", "--optimizer", "sgd", "--lr", str(RATE), "--devices", str(devices)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return None, done.stderr.strip().splitlines()[-1]
    return [line["loss"] for line in map(json.loads, done.stdout.splitlines()) if "loss" in line], done.stderr


def exported(net, example, path, optimizes):
    """The keys that say what no file does: that batch norms train, and what PyTorch has frozen."""
    import onnx
    torch.onnx.export(net.eval(), (example,), path, dynamo=True, optimize=optimizes, external_data=False, input_names=["input"],
                      output_names=["output"], verbose=False)
    graph = onnx.load(path).graph
    there = {t.name for t in graph.initializer}
    frozen = [n for n, p in net.named_parameters() if not p.requires_grad and n in there]
    return ["training=1"] * any(n.op_type == "BatchNormalization" for n in graph.node) + \
        (["frozen=" + "+".join(frozen)] if frozen else [])


def check(shardwright, name, devices, folder):
    """By export: same, told, refused, or off."""
    torch.manual_seed(7)
    make, draw = NETWORKS[name]
    net, g, out = make(), np.random.default_rng(11), {}
    start = {k: v.clone() for k, v in net.state_dict().items()}
    inputs = np.stack([draw(g) for _ in range(STEPS)])
    if inputs.dtype.kind == "f":
        inputs = inputs.astype(np.float32)
    with torch.no_grad():
        shape = tuple(net.eval()(torch.tensor(inputs[0])).shape)
    labels = g.standard_normal((STEPS, *shape)).astype(np.float32).astype(np.float64)
    data = os.path.join(folder, "data.safetensors")
    wide = inputs.astype(np.float64) if inputs.dtype.kind == "f" else inputs
    save(data, {"input": wide, "label": labels}, {})
    want = None
    for optimizes in (True, False):
        title = f"{name} {'as it is' if optimizes else 'optimize=False'}"
        path = os.path.join(folder, f"{name}_{int(optimizes)}.onnx")
        net.load_state_dict(start)
        try:
            keys = exported(net.float(), torch.tensor(inputs[0]), path, optimizes)
        except Exception as e:
            print(f"  {title:32} cannot be exported: {str(e).splitlines()[0][:120]}")
            out[optimizes] = "not exported"
            continue
        want = want or trained(net, start, wide, labels)
        worst, said = 0.0, ""
        for count in devices:
            got, said = own_losses(shardwright, path, data, count, keys)
            if got is None:
                break
            worst = max([worst] + [abs(a - b) / max(abs(b), 1) if a == a else np.inf for a, b in zip(got, want)])
        is_told = got is not None and "PyTorch's exporter has" in said
        out[optimizes] = "refused" if got is None else "same" if worst <= 1e-6 else "told" if is_told and optimizes else "off"
        note = said if got is None else f"off by {worst:.1e}" + (f"; {said[said.find('exporter has'):][:100]}" if is_told else "")
        print(f"  {title:32} {out[optimizes]:8} {note}", flush=True)
        os.remove(path)
    return out


def main():
    words_, devices = sys.argv[2:], [1, 4]
    if "--devices" in words_:
        at = words_.index("--devices")
        devices = [int(n) for n in words_[at + 1].split(",")]
        del words_[at:at + 2]
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in words_ or NETWORKS:
            rows[name] = check(os.path.abspath(sys.argv[1]), name, devices, folder)
    for optimizes in (True, False):
        results = [r.get(optimizes) for r in rows.values()]
        print(f"{'as it is' if optimizes else 'optimize=False'}: of {len(results)} " +
              ", ".join(f"{results.count(k)} {k}" for k in ("same", "told", "refused", "off", "not exported")))
    sys.exit(1 if any("off" in r.values() for r in rows.values()) else 0)


main()
