"""A decoder of plain classes: trained on 4 virtual devices, explained, saved, and gone on with on others."""

import sys

import numpy as np

import shardwright as sw

VOCABULARY, SIZE, HEADS, ROWS, BATCH = 32, 32, 4, 16, 8


class Block:
    def __init__(self):
        self.norm1, self.norm2 = sw.nn.RMSNorm(SIZE), sw.nn.RMSNorm(SIZE)
        self.qkv, self.out = sw.nn.Dense(SIZE, 3 * SIZE, bias=False), sw.nn.Dense(SIZE, SIZE, bias=False)
        self.up, self.down = sw.nn.Dense(SIZE, 4 * SIZE), sw.nn.Dense(4 * SIZE, SIZE)

    def __call__(self, x):
        batch, rows, size = x.shape
        heads = sw.ops.reshape(self.qkv(self.norm1(x)), (batch, rows, 3, HEADS, size // HEADS))
        q, k, v = (sw.ops.transpose(heads[:, :, i], (0, 2, 1, 3)) for i in range(3))
        y = sw.ops.transpose(sw.ops.attention(sw.ops.rotary(q), sw.ops.rotary(k), v), (0, 2, 1, 3))
        x = x + self.out(sw.ops.reshape(y, (batch, rows, size)))
        return x + self.down(sw.ops.gelu(self.up(self.norm2(x))))


class Decoder:
    def __init__(self):
        self.embedding = sw.nn.Embedding(VOCABULARY, SIZE)
        self.blocks = [Block(), Block()]
        self.norm, self.head = sw.nn.RMSNorm(SIZE), sw.nn.Dense(SIZE, VOCABULARY, bias=False)

    def __call__(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def loss(decoder, tokens, following):
    return sw.ops.cross_entropy(decoder(tokens), following)


def batches(rng):
    """Sequences in which each token is three more than the one before."""
    while True:
        start = rng.integers(0, VOCABULARY, (BATCH, 1))
        tokens = ((start + 3 * np.arange(ROWS + 1)) % VOCABULARY).astype(np.int32)
        yield tokens[:, :-1], tokens[:, 1:]


run = sys.argv[1]
data = batches(np.random.default_rng(1))
step = sw.train_step(loss, Decoder(), sw.optim.adamw(0.01), devices=4)
rates = sw.RateSchedule("cosine", rate=0.01, steps=60, warmup="10%")
for i in range(60):
    step.set_rate(rates(i))
    now = step(*next(data))
    if i % 20 == 19:
        print(f"step {i + 1}: loss {now.item():.3f}")
step.save(run)
step.wait()

plan = step.explain()
print(next(line for line in plan.table.split("\n") if line.startswith("mesh")), "with", plan.collectives)

# The same weights on 2 devices in 2 stages go on where the others were.
other = sw.train_step(loss, Decoder(), sw.optim.adamw(0.001), devices=2, stages=2, micro_batches=4, search="recursive")
print("goes on behind step", other.load(run), "with loss", round(other(*next(data)).item(), 3))

# One token after the other, each the likeliest.
decoder = step.params
score = sw.jit(lambda tokens: sw.ops.argmax(decoder(tokens)))
written = [5, 8]
while len(written) < 10:
    written.append(int(score(np.array([written], np.int32)).numpy()[0, -1]))
print(written)
