"""Torch models that the tests load as `file.py:function`; copied into the test's folder."""

import torch


class TwoInputs(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(50, 8)
        self.lstm = torch.nn.LSTM(8, 16, batch_first=True)
        self.head = torch.nn.Linear(16, 3)

    def forward(self, ids, extra):
        hidden, _ = self.lstm(self.embed(ids))
        return {"scores": self.head(hidden[:, -1]) + extra, "states": hidden}


class Conv(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.norm = torch.nn.BatchNorm2d(4)
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, input):
        y = self.drop(self.norm(self.conv(input)))
        return y.mean((2, 3)), y


class MixesTheBatch(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        y = self.linear(x)
        return y - y.mean(0, keepdim=True)


def two_inputs():
    return TwoInputs(), (torch.zeros(1, 7, dtype=torch.long), torch.zeros(1, 3))


def conv():
    return Conv()


def mixes_the_batch():
    return MixesTheBatch(), torch.ones(4, 3)


class DropsAlways(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.dropout(x, 0.5)


def drops_always():
    return DropsAlways(), torch.ones(1, 3)


def no_batch():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 2), Total()), torch.ones(1, 3)


class Total(torch.nn.Module):
    def forward(self, x):
        return x.sum()


def small():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)), torch.zeros(1, 4)


def raises():
    raise RuntimeError("no such\nmodel")


def returns_text():
    return "a model"
