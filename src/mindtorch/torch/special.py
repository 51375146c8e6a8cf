"""``torch.special``: the functions of the op table's namespace "special"."""

from mindtorch.ops.table import namespace

globals().update(namespace("special"))
