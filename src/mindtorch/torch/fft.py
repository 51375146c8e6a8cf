"""``torch.fft``: the functions of the op table's namespace "fft"."""

from mindtorch.ops.table import namespace

globals().update(namespace("fft"))
