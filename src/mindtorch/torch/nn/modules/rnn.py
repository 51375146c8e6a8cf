"""Recurrent layers and cells."""

from __future__ import annotations

import math
import numbers
import warnings
from typing import Any

import mindtorch.torch as torch

from .. import init
from ..parameter import Parameter
from ..utils.rnn import PackedSequence
from .module import Module

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]
_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def _permuted(tensor: Any, order: Any, dim: int = 1) -> Any:
    return tensor if order is None else tensor.index_select(dim, order)


def _check_other(kwargs: dict[str, Any]) -> None:
    """Errors of RNN and GRU for the arguments that only their base takes."""
    if kwargs.pop("proj_size", 0):
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
    if kwargs:
        raise TypeError(f"RNNBase.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'")


class _Recurrent(Module):
    """The first values of all recurrent layers and cells."""

    def reset_parameters(self) -> None:
        """Draw all parameters in order, uniform in +-1/sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)


class RNNBase(_Recurrent):
    """Parameters for each layer and direction: weight_ih (gates * hidden, input), weight_hh, bias_ih, bias_hh[,
    weight_hr]."""

    __constants__ = [
        "mode",
        "input_size",
        "hidden_size",
        "num_layers",
        "bias",
        "batch_first",
        "dropout",
        "bidirectional",
        "proj_size",
    ]

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._check_settings(dropout)
        self._flat_weights_names: list[str] = []
        self._all_weights: list[list[str]] = []
        self._make_parameters({"device": device, "dtype": dtype})
        self.reset_parameters()

    def _check_settings(self, dropout: Any) -> None:
        number = isinstance(dropout, numbers.Number) and not isinstance(dropout, bool)
        if not number or not 0 <= dropout <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
            )
        if dropout > 0 and self.num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
                "num_layers greater "
                f"than 1, but got dropout={dropout} and num_layers={self.num_layers}",
                stacklevel=4,
            )
        for name in ("input_size", "hidden_size"):
            value = getattr(self, name)
            if not isinstance(value, int):
                raise TypeError(f"{name} should be of type int, got: {type(value).__name__}")
        for name in ("input_size", "hidden_size", "num_layers"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be greater than zero")
        if self.proj_size < 0:
            raise ValueError("proj_size should be a positive integer or zero to disable projections")
        if self.proj_size >= self.hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        if self.mode not in _GATES:
            raise ValueError("Unrecognized RNN mode: " + self.mode)

    def _make_parameters(self, where: dict[str, Any]) -> None:
        directions = 2 if self.bidirectional else 1
        real = self.proj_size or self.hidden_size
        rows = _GATES[self.mode] * self.hidden_size
        for layer in range(self.num_layers):
            for direction in range(directions):
                width = self.input_size if layer == 0 else real * directions
                shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, width), "weight_hh": (rows, real)}
                if self.bias:
                    shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
                if self.proj_size:
                    shapes["weight_hr"] = (self.proj_size, self.hidden_size)
                end = f"_l{layer}" + ("_reverse" if direction else "")
                names = [n + end for n in shapes]
                for name, shape in zip(names, shapes.values()):
                    setattr(self, name, Parameter(torch.empty(shape, **where)))
                self._flat_weights_names.extend(names)
                self._all_weights.append(names)

    @property
    def _flat_weights(self) -> list[Any]:
        params = self._parameters
        try:
            return [params[n] for n in self._flat_weights_names]
        except KeyError:
            return [getattr(self, n, None) for n in self._flat_weights_names]

    @property
    def all_weights(self) -> list[list[Any]]:
        """Parameters grouped by layer and direction."""
        return [[getattr(self, n) for n in names] for names in self._all_weights]

    def __getstate__(self) -> dict[str, Any]:
        # PyTorch keeps the flat list in the instance, and needs it in a file; here it is derived
        return {**super().__getstate__(), "_flat_weights": self._flat_weights}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = {k: v for k, v in state.items() if k not in ("_flat_weights", "_flat_weight_refs")}
        if "all_weights" in state:
            state["_all_weights"] = state.pop("all_weights")
        super().__setstate__(state)
        d = self.__dict__
        d.setdefault("proj_size", 0)
        if "_flat_weights_names" not in d:
            d["_flat_weights_names"] = [n for names in d["_all_weights"] for n in names]

    def flatten_parameters(self) -> None:
        """Nothing to do: the CPU kernels read each parameter where it is."""

    # ------------------------------------------------------------------------------------------------ checks
    def check_input(self, input: Any, batch_sizes: Any) -> None:
        """dtype and last dimension of the input fit the weights."""
        weight = self._flat_weights[0]
        if input.dtype != weight.dtype and not torch.is_autocast_enabled("cpu"):
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). Convert input: "
                f"input.to({weight.dtype}), or convert model: model.to({input.dtype})"
            )
        want = 3 if batch_sizes is None else 2
        if input.dim() != want:
            raise RuntimeError(f"input must have {want} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}"
            )

    def _batch(self, input: Any, batch_sizes: Any) -> int:
        if batch_sizes is not None:
            return int(batch_sizes[0])
        return input.size(0) if self.batch_first else input.size(1)

    def get_expected_hidden_size(self, input: Any, batch_sizes: Any) -> tuple[int, int, int]:
        """(layers * directions, batch, hidden)."""
        directions = 2 if self.bidirectional else 1
        return self.num_layers * directions, self._batch(input, batch_sizes), self.proj_size or self.hidden_size

    def check_hidden_size(
        self, hx: Any, expected_hidden_size: tuple[int, ...], msg: str = "Expected hidden size {}, got {}"
    ) -> None:
        """RuntimeError unless ``hx`` has the expected size."""
        if hx.size() != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input: Any, hidden: Any, batch_sizes: Any) -> None:
        """All checks of one call."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Any) -> Any:
        """``hx`` with its batch in another order."""
        return _permuted(hx, permutation)

    def extra_repr(self) -> str:
        """Sizes, and what differs from the defaults."""
        s = f"{self.input_size}, {self.hidden_size}"
        if self.proj_size != 0:
            s += f", proj_size={self.proj_size}"
        if self.num_layers != 1:
            s += f", num_layers={self.num_layers}"
        if self.bias is not True:
            s += f", bias={self.bias}"
        if self.batch_first is not False:
            s += f", batch_first={self.batch_first}"
        if self.dropout != 0:
            s += f", dropout={self.dropout}"
        if self.bidirectional is not False:
            s += f", bidirectional={self.bidirectional}"
        return s

    # ------------------------------------------------------------------------------------------------- calls
    def _zeros(self, input: Any, batch: int, size: int) -> Any:
        directions = 2 if self.bidirectional else 1
        return torch.zeros(self.num_layers * directions, batch, size, dtype=input.dtype, device=input.device)

    def _check_batched_hidden(self, hx: tuple[Any, ...], batched: bool) -> None:
        """Hidden states have as many dimensions as the input."""
        want = 3 if batched else 2
        if any(h.dim() != want for h in hx):
            head = "For batched 3-D input" if batched else "For unbatched 2-D input"
            if len(hx) == 2:
                what = f"hx and cx should also be {want}-D but got ({hx[0].dim()}-D, {hx[1].dim()}-D) tensors"
            else:
                what = f"hx should also be {want}-D but got {hx[0].dim()}-D tensor"
            raise RuntimeError(f"{head}, {what}")

    def _hidden(self, input: Any, batch_sizes: Any, hx: Any, order: Any) -> Any:
        """The initial state: zeros, or the user's in the order of the packed batch."""
        raise NotImplementedError(f"{type(self).__name__} must define its hidden state")

    def _compute(self, input: Any, batch_sizes: Any, hx: Any) -> tuple[Any, ...]:
        name = self.mode.lower()
        fn = getattr(torch, name)
        settings = (self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        if batch_sizes is None:
            return fn(input, hx, self._flat_weights, *settings, self.batch_first)
        return fn(input, batch_sizes, hx, self._flat_weights, *settings)

    def _run(self, input: Any, hx: Any) -> tuple[Any, tuple[Any, ...]]:
        """Output (packed like the input) and final states in the user's order."""
        if isinstance(input, PackedSequence):
            data, batch_sizes, order, back = input
            state = self._hidden(data, batch_sizes, hx, order)
            self.check_forward_args(data, state, batch_sizes)
            out, *last = self._compute(data, batch_sizes, state)
            return PackedSequence(out, batch_sizes, order, back), tuple(_permuted(h, back) for h in last)
        if input.dim() not in (2, 3):
            raise ValueError(f"{type(self).__name__}: Expected input to be 2D or 3D, got {input.dim()}D instead")
        batched = input.dim() == 3
        if hx is not None:
            states = tuple(hx) if self.mode == "LSTM" else (hx,)
            self._check_batched_hidden(states, batched)
            if not batched:
                states = tuple(h.unsqueeze(1) for h in states)
                hx = states if self.mode == "LSTM" else states[0]
        batch_dim = 0 if self.batch_first else 1
        x = input if batched else input.unsqueeze(batch_dim)
        state = self._hidden(x, None, hx, None)
        self.check_forward_args(x, state, None)
        out, *last = self._compute(x, None, state)
        if not batched:
            return out.squeeze(batch_dim), tuple(h.squeeze(1) for h in last)
        return out, tuple(last)


class _OneState(RNNBase):
    """RNN and GRU: the state is one tensor."""

    def _hidden(self, input: Any, batch_sizes: Any, hx: Any, order: Any) -> Any:
        if hx is None:
            return self._zeros(input, self._batch(input, batch_sizes), self.hidden_size)
        return self.permute_hidden(hx, order)

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """(L, N, input) or packed, and h0 (layers * directions, N, hidden) -> outputs (L, N, directions * hidden),
        h_n."""
        out, last = self._run(input, hx)
        return out, last[0]


class RNN(_OneState):
    """Elman network: ``h' = tanh(W_ih x + b_ih + W_hh h + b_hh)`` (or relu)."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        _check_other(kwargs)
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        mode, sizes = f"RNN_{nonlinearity.upper()}", (input_size, hidden_size, num_layers)
        super().__init__(mode, *sizes, bias, batch_first, dropout, bidirectional, 0, device, dtype)
        self.nonlinearity = nonlinearity


class GRU(_OneState):
    """Gated recurrent unit; gates in the order reset, update, new."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        _check_other(kwargs)
        sizes = (input_size, hidden_size, num_layers)
        super().__init__("GRU", *sizes, bias, batch_first, dropout, bidirectional, 0, device, dtype)


class LSTM(RNNBase):
    """Long short-term memory; gates in the order input, forget, cell, output; ``proj_size`` projects the hidden state."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        sizes = (input_size, hidden_size, num_layers)
        super().__init__("LSTM", *sizes, bias, batch_first, dropout, bidirectional, proj_size, device, dtype)

    def get_expected_cell_size(self, input: Any, batch_sizes: Any) -> tuple[int, int, int]:
        """(layers * directions, batch, hidden)."""
        directions = 2 if self.bidirectional else 1
        return self.num_layers * directions, self._batch(input, batch_sizes), self.hidden_size

    def check_forward_args(self, input: Any, hidden: Any, batch_sizes: Any) -> None:
        """All checks of one call."""
        self.check_input(input, batch_sizes)
        for i, expected in enumerate((self.get_expected_hidden_size, self.get_expected_cell_size)):
            self.check_hidden_size(hidden[i], expected(input, batch_sizes), f"Expected hidden[{i}] size {{}}, got {{}}")

    def permute_hidden(self, hx: Any, permutation: Any) -> Any:
        """Both states with their batch in another order."""
        return hx if permutation is None else (_permuted(hx[0], permutation), _permuted(hx[1], permutation))

    def _hidden(self, input: Any, batch_sizes: Any, hx: Any, order: Any) -> Any:
        if hx is None:
            batch = self._batch(input, batch_sizes)
            real = self.proj_size or self.hidden_size
            return self._zeros(input, batch, real), self._zeros(input, batch, self.hidden_size)
        return self.permute_hidden(tuple(hx), order)

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, tuple[Any, Any]]:
        """(L, N, input) or packed, and (h0, c0) -> outputs (L, N, directions * hidden), (h_n, c_n)."""
        out, last = self._run(input, hx)
        return out, (last[0], last[1])


class RNNCellBase(_Recurrent):
    """Parameters weight_ih (chunks * hidden, input), weight_hh, bias_ih, bias_hh."""

    __constants__ = ["input_size", "hidden_size", "bias"]

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        where = {"device": device, "dtype": dtype}
        self.weight_ih = Parameter(torch.empty((rows, input_size), **where))
        self.weight_hh = Parameter(torch.empty((rows, hidden_size), **where))
        if bias:
            self.bias_ih = Parameter(torch.empty(rows, **where))
            self.bias_hh = Parameter(torch.empty(rows, **where))
        else:
            self.register_parameter("bias_ih", None)
            self.register_parameter("bias_hh", None)
        self.reset_parameters()

    def extra_repr(self) -> str:
        """Sizes, and what differs from the defaults."""
        s = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            s += f", bias={self.bias}"
        if self.__dict__.get("nonlinearity", "tanh") != "tanh":
            s += f", nonlinearity={self.nonlinearity}"
        return s

    def _prepare(self, input: Any, states: Any, label: str) -> tuple[Any, list[Any], bool]:
        """Input and states as batches, and whether they were; zeros for missing states."""
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        for i, h in enumerate(() if states is None else states):
            if h.dim() not in (1, 2):
                raise ValueError(f"{name}: Expected {label.format(i)} to be 1D or 2D, got {h.dim()}D instead")
        batched = input.dim() == 2
        if not batched:
            input = input.unsqueeze(0)
        if states is None:
            zero = torch.zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
            return input, [zero], batched
        return input, [h if batched else h.unsqueeze(0) for h in states], batched


class RNNCell(RNNCellBase):
    """One step of RNN: (N, input), (N, hidden) -> (N, hidden)."""

    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=1, device=device, dtype=dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Any = None) -> Any:
        """Next hidden state."""
        input, (h,), batched = self._prepare(input, None if hx is None else (hx,), "hidden")
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        step = torch.rnn_tanh_cell if self.nonlinearity == "tanh" else torch.rnn_relu_cell
        out = step(input, h, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return out if batched else out.squeeze(0)


class LSTMCell(RNNCellBase):
    """One step of LSTM: (N, input), ((N, hidden), (N, hidden)) -> the next two states."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=4, device=device, dtype=dtype)

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """Next hidden and cell state."""
        input, states, batched = self._prepare(input, hx, "hx[{}]")
        if hx is None:
            states = states * 2
        h, c = torch.lstm_cell(input, states, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return (h, c) if batched else (h.squeeze(0), c.squeeze(0))


class GRUCell(RNNCellBase):
    """One step of GRU: (N, input), (N, hidden) -> (N, hidden)."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=3, device=device, dtype=dtype)

    def forward(self, input: Any, hx: Any = None) -> Any:
        """Next hidden state."""
        input, (h,), batched = self._prepare(input, None if hx is None else (hx,), "hidden")
        out = torch.gru_cell(input, h, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return out if batched else out.squeeze(0)
