"""Your own torch model and data: edgebench convert+measure my_torch_model.py:net --data my_torch_model.py:samples."""

import numpy as np
import torch


def net() -> torch.nn.Module:  # add `--weights checkpoint.pt` to the command for a trained one
    torch.manual_seed(0)
    conv = torch.nn.Conv2d(3, 8, 3, stride=2)
    return torch.nn.Sequential(conv, torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 15 * 15, 4))


def samples():  # one dict a sample; the key is the parameter's name in forward()
    rng = np.random.default_rng(0)
    for label in rng.integers(0, 4, 200):
        yield {"input": rng.normal(label, 1, (3, 32, 32)).astype("float32"), "label": label}
