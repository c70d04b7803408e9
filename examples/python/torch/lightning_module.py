"""A LightningModule and its Trainer, planned and run by Shardwright on four devices: the lines that differ end with `# shardwright`.

    python3 lightning_module.py
"""

import torch
import torch.nn.functional as F
from lightning import LightningModule, Trainer, seed_everything
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import shardwright.torch.lightning as sl  # shardwright


class Digits(LightningModule):
    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                                     nn.Linear(8 * 4 * 4, 32), nn.GELU(), nn.Linear(32, 4))

    def training_step(self, batch, batch_idx):
        image, label = batch
        loss = F.cross_entropy(self.network(image), label)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        image, label = batch
        self.log("right", (self.network(image).argmax(1) == label).float().mean())

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=3e-3)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 20, 0.5), "interval": "step"}}


def drawn(count):
    """Squares with one bright corner; which one it is is asked."""
    label = torch.randint(0, 4, (count,))
    image = torch.randn(count, 1, 8, 8)
    for corner in range(4):
        row, column = 4 * (corner // 2), 4 * (corner % 2)
        image[label == corner, :, row:row + 4, column:column + 4] += 1
    return TensorDataset(image, label)


if __name__ == "__main__":
    seed_everything(1)
    module = Digits()
    data, held_out = DataLoader(drawn(64 * 60), batch_size=64), DataLoader(drawn(256), batch_size=64)
    trainer = Trainer(max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False)
    trainer.fit(sl.planned(module, devices=4), data, held_out)  # shardwright
    print(f"loss {trainer.callback_metrics['train_loss']:.5f}, right: {trainer.callback_metrics['right']:.2f}")
