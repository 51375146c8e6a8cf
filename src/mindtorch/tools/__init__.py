"""Tools of the migration guide. ``from mindtorch.tools import mstorch_enable`` switches ``import torch`` to mindtorch."""
