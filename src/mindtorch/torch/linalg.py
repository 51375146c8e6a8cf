"""``torch.linalg``: the functions of the op table's namespace "linalg"."""

from mindtorch.ops.table import namespace

globals().update(namespace("linalg"))
