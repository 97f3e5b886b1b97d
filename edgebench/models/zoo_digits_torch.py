"""`zoo:digits-cnn-torch`: a small convolutional network for 8x8 digits, trained once and kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from edgebench.atomic import replacing
from edgebench.models import checkpoint
from edgebench.models.torch_models import import_torch

RECIPE_VERSION = 1
EPOCHS, BATCH, LEARNING_RATE, SEED = 12, 64, 2e-3, 0


def load(home: Path, log: Callable[[str], None]) -> Any:
    """The trained module in eval mode: float32 NCHW (n, 1, 8, 8) in 0..1 -> logits (n, 10)."""
    import_torch("MODEL 'zoo:digits-cnn-torch'")
    path = home / f"digits-cnn-torch-v{RECIPE_VERSION}.pt"
    module = build()
    if path.is_file():
        checkpoint.load_into(module, path)
    else:
        _train(module, log)
        import torch

        with replacing(path) as temporary:
            torch.save(module.state_dict(), temporary)
    return module.eval()


def build() -> Any:
    """The network with random weights, the same at each call: three convolutions with BatchNorm, two dense layers."""
    import torch
    from torch import nn

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        return nn.Sequential(
            *_block(1, 32),
            *_block(32, 32),
            nn.MaxPool2d(2),
            *_block(32, 64),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(256, 32),
            nn.ReLU(),
            nn.Linear(32, 10),
        )


def _block(channels: int, filters: int) -> list[Any]:
    from torch import nn

    return [nn.Conv2d(channels, filters, 3, padding=1, bias=False), nn.BatchNorm2d(filters), nn.ReLU()]


def _train(module: Any, log: Callable[[str], None]) -> None:
    import torch

    from edgebench.data import digits

    images, labels = digits.train_split()
    x = torch.from_numpy(images).permute(0, 3, 1, 2).contiguous()
    y = torch.from_numpy(labels)
    generator = torch.Generator().manual_seed(SEED)
    optimizer: Any = torch.optim.AdamW(module.parameters(), lr=LEARNING_RATE, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    module.train()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # so small a network is slower on more, and sums are added in one order on any machine
    for epoch in range(EPOCHS):
        total = 0.0
        for rows in _batches(len(y), generator):
            optimizer.zero_grad()
            loss: Any = torch.nn.functional.cross_entropy(module(x[rows]), y[rows])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(rows)
        schedule.step()
        log(f"digits-cnn-torch: epoch {epoch + 1} of {EPOCHS}, loss {total / len(y):.4f}")
    torch.set_num_threads(threads)


def _batches(n: int, generator: Any) -> Any:
    import torch

    order: Any = torch.randperm(n, generator=generator)
    return order.split(BATCH)
