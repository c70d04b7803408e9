"""Public modules, small, each with a batch and its loss: read by make_torch_export.py and tests/outside/torch_modules.py,
with a PyTorch that has torch.export, torchvision and transformers."""

import contextlib
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
import torch.nn.functional as F
import transformers
from torch import nn

try:
    import torchvision.models as vision
except ModuleNotFoundError:
    vision = None


@contextlib.contextmanager
def everywhere_f64():
    """transformers' code, which casts to float32 on its way, in float64."""
    saved = torch.float32, torch.float, torch.Tensor.float, torch.get_default_dtype()
    try:
        torch.float32 = torch.float = torch.float64
        torch.Tensor.float = torch.Tensor.double
        torch.set_default_dtype(torch.float64)
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = saved[:3]
        torch.set_default_dtype(saved[3])


def loss_of_classes(module, image, label):
    return F.cross_entropy(module(image), label)


def images(count, size, classes=10):
    return torch.randn(count, 3, size, size), torch.randint(0, classes, (count,))


def words(count=8, length=16, vocabulary=64):
    return torch.randint(0, vocabulary, (count, length))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down, self.heads = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), heads

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = (p.view(b, t, self.heads, c // self.heads).transpose(1, 2) for p in self.qkv(self.norm1(x)).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(y.transpose(1, 2).contiguous().view(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class NanoGPT(nn.Module):
    """A decoder as nanoGPT writes it, whose head is its table of words."""

    def __init__(self, vocabulary=64, length=16, width=32, heads=4, layers=2):
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.words.weight = self.head.weight

    def forward(self, tokens, targets):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def _double(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(),
                         nn.Conv2d(o, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.down1, self.down2, self.middle = _double(3, c), _double(c, 2 * c), _double(2 * c, 4 * c)
        self.up2, self.up1 = nn.ConvTranspose2d(4 * c, 2 * c, 2, 2), nn.ConvTranspose2d(2 * c, c, 2, 2)
        self.join2, self.join1, self.out = _double(4 * c, 2 * c), _double(2 * c, c), nn.Conv2d(c, 4, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        y = self.join2(torch.cat([self.up2(self.middle(F.max_pool2d(b, 2))), b], 1))
        return self.out(self.join1(torch.cat([self.up1(y), a], 1)))


class LanguageModel(nn.Module):
    def __init__(self, vocabulary=64, width=24, layers=2):
        super().__init__()
        self.words, self.out = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True)

    def forward(self, x):
        return self.out(self.lstm(self.words(x))[0])


class Adversaries(nn.Module):
    """A generator and a discriminator, with the sum of their losses."""

    def __init__(self, z, c):
        super().__init__()
        self.generator = nn.Sequential(
            nn.ConvTranspose2d(z, 2 * c, 4, 1, 0, bias=False), nn.BatchNorm2d(2 * c), nn.ReLU(),
            nn.ConvTranspose2d(2 * c, c, 4, 2, 1, bias=False), nn.BatchNorm2d(c), nn.ReLU(), nn.ConvTranspose2d(c, 3, 4, 2, 1), nn.Tanh())
        self.discriminator = nn.Sequential(
            nn.Conv2d(3, c, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(c, 2 * c, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * c),
            nn.LeakyReLU(0.2), nn.Conv2d(2 * c, 1, 4))

    def forward(self, noise, real):
        fake, loss = self.generator(noise), F.binary_cross_entropy_with_logits
        of_real, of_fake = self.discriminator(real), self.discriminator(fake.detach())
        return loss(of_real, torch.ones_like(of_real)) + loss(of_fake, torch.zeros_like(of_fake)) \
            + loss(self.discriminator(fake), torch.ones_like(of_real))


class Mixer(nn.Module):
    def __init__(self, width=16, places=16, layers=2):
        super().__init__()
        def dense(n):
            return nn.Sequential(nn.Linear(n, 2 * n), nn.GELU(), nn.Linear(2 * n, n))

        self.patches, self.norm, self.head = nn.Conv2d(3, width, 8, 8), nn.LayerNorm(width), nn.Linear(width, 10)
        self.layers = nn.ModuleList([nn.ModuleList([nn.LayerNorm(width), dense(places), nn.LayerNorm(width), dense(width)])
                                     for _ in range(layers)])

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        for norm1, of_places, norm2, of_features in self.layers:
            x = x + of_places(norm1(x).transpose(1, 2)).transpose(1, 2)
            x = x + of_features(norm2(x))
        return self.head(self.norm(x).mean(1))


class Autoencoder(nn.Module):
    """Variational, with both kinds of upsampling."""

    def __init__(self):
        super().__init__()
        self.encode, self.mean, self.spread = nn.Conv2d(3, 4, 3, 2, 1), nn.Linear(4 * 64, 4), nn.Linear(4 * 64, 4)
        self.decode, self.mid, self.out = nn.Linear(4, 4 * 16), nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 3, 3, padding=1)

    def forward(self, x, noise):
        h = F.elu(self.encode(x)).flatten(1)
        mean, spread = self.mean(h), self.spread(h).clamp(-8, 8)
        z = mean + noise * torch.exp(0.5 * spread)
        y = F.elu(self.mid(F.interpolate(self.decode(z).view(-1, 4, 4, 4), scale_factor=2, mode="nearest")))
        y = self.out(F.interpolate(y, scale_factor=2, mode="bilinear", align_corners=False))
        return F.mse_loss(torch.sigmoid(y), x) + 0.01 * (-0.5 * (1 + spread - mean.pow(2) - spread.exp())).mean()


class TwoTowers(nn.Module):
    def __init__(self):
        super().__init__()
        self.users, self.items = nn.EmbeddingBag(50, 12, mode="mean"), nn.Embedding(40, 12)
        self.of_user, self.of_item = nn.Linear(12, 8), nn.Linear(12, 8)

    def forward(self, user, item, label):
        a = F.normalize(F.relu(self.of_user(self.users(user))), dim=-1)
        b = F.normalize(F.relu(self.of_item(self.items(item))), dim=-1)
        return F.cross_entropy(a @ b.t() / 0.1, label)


class GraphConvolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(12, 16), nn.Linear(16, 5)

    def forward(self, x, edge, label):
        def convolved(layer, h):
            h = layer(h)
            return torch.zeros_like(h).index_add(0, edge[1], h[edge[0]])

        logs = F.log_softmax(convolved(self.second, F.relu(convolved(self.first, x))), 1)
        return -logs.gather(1, label[:, None]).mean()


class Diffusion(nn.Module):
    """A denoising UNet: group norms, embedded times, attention in the middle."""

    def __init__(self, c):
        super().__init__()
        self.times, self.begin, self.norm = nn.Linear(16, 2 * c), nn.Conv2d(3, c, 3, padding=1), nn.GroupNorm(4, c)
        self.down, self.qkv, self.project = nn.Conv2d(c, 2 * c, 3, 2, 1), nn.Conv2d(2 * c, 6 * c, 1), nn.Conv2d(2 * c, 2 * c, 1)
        self.up, self.out = nn.ConvTranspose2d(2 * c, c, 4, 2, 1), nn.Conv2d(2 * c, 3, 3, padding=1)

    def forward(self, x, time, noise):
        angles = time[:, None] * torch.exp(-torch.arange(8, dtype=x.dtype) * 0.5)[None]
        h = F.silu(self.norm(self.begin(x + noise)))
        y = self.down(h) + self.times(torch.cat([torch.sin(angles), torch.cos(angles)], -1))[:, :, None, None]
        b, c, rows, columns = y.shape
        qkv = self.qkv(y).reshape(b, 3, 1, c, rows * columns).transpose(-1, -2)
        attended = F.scaled_dot_product_attention(qkv[:, 0], qkv[:, 1], qkv[:, 2])
        y = y + self.project(attended.transpose(-1, -2).reshape(b, c, rows, columns))
        up = self.up(y) + F.interpolate(F.avg_pool2d(h, 2), scale_factor=2, mode="nearest")
        return F.mse_loss(self.out(torch.cat([up, h], 1)), noise)


def _hf(make, batch, loss=None):
    with everywhere_f64():
        return make(), batch, loss


def _of_words():
    x = words()
    return {"input_ids": x, "labels": x.clone()}


def _llama(n):
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=8 * n, num_hidden_layers=min(n, 2), num_attention_heads=4, num_key_value_heads=2, intermediate_size=12 * n,
        max_position_embeddings=32, use_cache=False)
    return _hf(lambda: transformers.LlamaForCausalLM(config), _of_words())


def _gpt2(n):
    config = transformers.GPT2Config(
        vocab_size=64, n_positions=32, n_embd=8 * n, n_layer=min(n, 2), n_head=4, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, use_cache=False,
        bos_token_id=0, eos_token_id=0)
    return _hf(lambda: transformers.GPT2LMHeadModel(config), _of_words())


def _bert(n):
    config = transformers.BertConfig(
        vocab_size=64, hidden_size=8 * n, num_hidden_layers=min(n, 2), num_attention_heads=4, intermediate_size=16 * n,
        max_position_embeddings=32, hidden_dropout_prob=0, attention_probs_dropout_prob=0)
    x = words()
    mask = torch.ones_like(x)
    mask[:4, 12:] = 0
    return _hf(lambda: transformers.BertForSequenceClassification(config),
               {"input_ids": x, "attention_mask": mask, "labels": torch.randint(0, 2, (8,))})


def _vit(n):
    config = transformers.ViTConfig(
        hidden_size=8 * n, num_hidden_layers=min(n, 2), num_attention_heads=4, intermediate_size=16 * n, image_size=16, patch_size=4,
        hidden_dropout_prob=0, attention_probs_dropout_prob=0, num_labels=10)
    return _hf(lambda: transformers.ViTForImageClassification(config), dict(zip(("pixel_values", "labels"), images(8, 16))))


def _t5(n):
    config = transformers.T5Config(vocab_size=64, d_model=8 * n, d_kv=2 * n, d_ff=16 * n, num_layers=min(n, 2), num_heads=4, dropout_rate=0.0,
                                   use_cache=False)

    def loss(module, input_ids, attention_mask, goal):
        return F.mse_loss(module(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state, goal)

    mask = torch.ones(8, 16, dtype=torch.long)
    mask[2:5, 10:] = 0
    return _hf(lambda: transformers.T5EncoderModel(config),
               {"input_ids": words(), "attention_mask": mask, "goal": torch.randn(8, 16, 8 * n)}, loss)


def _whisper(n):
    config = transformers.WhisperConfig(
        vocab_size=64, d_model=8 * n, encoder_layers=min(n, 2), decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=16 * n, decoder_ffn_dim=8, num_mel_bins=8, max_source_positions=16, dropout=0, pad_token_id=0, bos_token_id=1,
        eos_token_id=2, decoder_start_token_id=1)
    return _hf(lambda: transformers.WhisperModel(config).encoder,
               {"input_features": torch.randn(8, 8, 32), "goal": torch.randn(8, 16, 8 * n)},
               lambda module, input_features, goal: F.mse_loss(module(input_features).last_hidden_state, goal))


# By name: of a width, 1 or 4, the module, a batch, and its loss if the module does not return it.
modules = {
    "nanogpt": lambda n: (NanoGPT(width=8 * n, layers=min(n, 2)), (words(), words()), None),
    "unet": lambda n: (UNet(2 * n), (torch.randn(8, 3, 8 * min(n, 2), 8 * min(n, 2)), torch.randint(0, 4, (8, 8 * min(n, 2), 8 * min(n, 2)))),
                       loss_of_classes),
    "swin": lambda n: (vision.SwinTransformer([4, 4], 4 * n, [2, 2], [2, 4], [4, 4], stochastic_depth_prob=0.0, num_classes=10),
                       images(4, 64), loss_of_classes),
    "lstm": lambda n: (LanguageModel(64, 6 * n), (words(), words()), lambda m, x, y: F.cross_entropy(m(x).transpose(1, 2), y)),
    "gan": lambda n: (Adversaries(4, 2 * n), (torch.randn(8, 4, 1, 1), torch.randn(8, 3, 16, 16)), None),
    "mixer": lambda n: (Mixer(4 * n), images(8, 32), loss_of_classes),
    "autoencoder": lambda n: (Autoencoder(), (torch.rand(8, 3, 16, 16), torch.randn(8, 4)), None),
    "two_towers": lambda n: (TwoTowers(), (torch.randint(0, 50, (8, 5)), torch.randint(0, 40, (8,)), torch.arange(8)), None),
    "graph": lambda n: (GraphConvolution(), (torch.randn(10, 12), torch.randint(0, 10, (2, 24)), torch.randint(0, 5, (10,))), None),
    "diffusion": lambda n: (Diffusion(4 * n), (torch.randn(8, 3, 8, 8), torch.rand(8), torch.randn(8, 3, 8, 8)), None),
    "hf_llama": _llama, "hf_gpt2": _gpt2, "hf_bert": _bert, "hf_vit": _vit, "hf_t5_encoder": _t5, "hf_whisper_encoder": _whisper,
}
# Those of which this folder has programs.
kept = ["nanogpt", "unet", "lstm", "gan", "two_towers", "graph", "diffusion", "hf_llama", "hf_bert", "hf_t5_encoder", "hf_gpt2"]
# As published, which are too large to be kept.
published = {
    "resnet18": lambda n: (vision.resnet18(num_classes=10), images(8, 32), loss_of_classes),
    "vit_b_16": lambda n: (vision.VisionTransformer(32, 8, 2, 4, 32, 64, num_classes=10), images(8, 32), loss_of_classes),
    "convnext_tiny": lambda n: (vision.convnext_tiny(num_classes=10, stochastic_depth_prob=0.0), images(4, 32), loss_of_classes),
    "efficientnet_b0": lambda n: (vision.efficientnet_b0(num_classes=10, stochastic_depth_prob=0.0, dropout=0.0), images(8, 64),
                                  loss_of_classes),
}


def made(name, width):
    """In f64, the same at each call."""
    torch.manual_seed(0)
    module, batch, loss = (modules.get(name) or published[name])(width)

    def wide(t):
        return t.double() if t.is_floating_point() else t

    batch = {k: wide(t) for k, t in batch.items()} if isinstance(batch, dict) else tuple(map(wide, batch))
    return module.double(), batch, loss
