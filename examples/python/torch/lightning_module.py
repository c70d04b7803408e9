"""A LightningModule and its loop, trained by Shardwright on four devices: the lines that differ end with `# shardwright`.

    python3 lightning_module.py

Only `training_step` and `configure_optimizers` of the module are asked; Lightning itself need not be installed.
"""

import torch
import torch.nn.functional as F
from torch import nn

import shardwright.torch as st  # shardwright

try:
    from lightning import LightningModule
except ModuleNotFoundError:
    LightningModule = nn.Module


class Digits(LightningModule):
    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                                     nn.Linear(8 * 4 * 4, 32), nn.GELU(), nn.Linear(32, 4))

    def training_step(self, batch, batch_idx):
        image, label = batch
        return F.cross_entropy(self.network(image), label)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


def batches(count):
    """Squares with one bright corner; which one it is is asked."""
    for _ in range(count):
        label = torch.randint(0, 4, (64,))
        image = torch.randn(64, 1, 8, 8)
        for corner in range(4):
            row, column = 4 * (corner // 2), 4 * (corner % 2)
            image[label == corner, :, row:row + 4, column:column + 4] += 1
        yield image, label


if __name__ == "__main__":
    torch.manual_seed(1)
    module = Digits()
    step = st.train_step(module, module.configure_optimizers(), loss=lambda m, *batch: m.training_step(batch, 0), devices=4)  # shardwright
    for i, batch in enumerate(batches(60)):
        loss = step(*batch).item()  # shardwright: instead of training_step, backward, step and zero_grad
        if i % 20 == 0 or i == 59:
            print(f"step {i + 1}: loss {loss:.3f}")
    step.write_back()
    image, label = next(batches(1))
    print(f"right: {(module.eval().network(image).argmax(1) == label).float().mean():.2f} of 64")
