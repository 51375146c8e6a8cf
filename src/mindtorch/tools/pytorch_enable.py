"""Importing this switches the program back: from here on ``import torch`` means the real PyTorch."""

from mindtorch.cli.switch import disinherit, torch_enable

torch_enable()
disinherit()
