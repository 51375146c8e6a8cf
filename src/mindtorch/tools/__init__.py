"""Tools of the migration guide. ``from mindtorch.tools import mstorch_enable`` lets ``import torch`` mean mindtorch."""
