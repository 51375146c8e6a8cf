"""Recurrent networks: ``torch.lstm``, ``gru``, ``rnn_tanh``, ``rnn_relu`` (padded and packed) and their cells.

A layer in one direction is one op with a fused backward. For higher derivatives (``create_graph=True``) the backward
rule runs the same layer step by step with public ops and differentiates that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mindtorch.core import modes, tape
from mindtorch.core.errors import check
from mindtorch.core.nodes import ORDER
from mindtorch.core.tensor import Tensor
from mindtorch.engine.host import rnn as K
from mindtorch.ops import activation
from mindtorch.ops.linear import linear
from mindtorch.ops.table import SPACES, composite, op, put, vjp

_NAMES = ("x", "h0", "c0", "w_ih", "w_hh", "b_ih", "b_hh")


# ---------------------------------------------------------------------- step by step, with public ops
def _lstm_step(gates: Tensor, h: Tensor, c: Tensor, w_hh: Tensor, b_hh: Any) -> tuple[Tensor, Tensor]:
    i, f, g, o = (gates + linear(h, w_hh, b_hh)).chunk(4, 1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _gru_step(gates: Tensor, h: Tensor, c: None, w_hh: Tensor, b_hh: Any) -> tuple[Tensor, None]:
    xr, xz, xn = gates.chunk(3, 1)
    hr, hz, hn = linear(h, w_hh, b_hh).chunk(3, 1)
    r, z = (xr + hr).sigmoid(), (xz + hz).sigmoid()
    n = (xn + r * hn).tanh()
    return n + z * (h - n), None


def _tanh_step(gates: Tensor, h: Tensor, c: None, w_hh: Tensor, b_hh: Any) -> tuple[Tensor, None]:
    return (gates + linear(h, w_hh, b_hh)).tanh(), None


def _relu_step(gates: Tensor, h: Tensor, c: None, w_hh: Tensor, b_hh: Any) -> tuple[Tensor, None]:
    return activation.relu(gates + linear(h, w_hh, b_hh)), None


_STEPS: dict[str, Callable[..., Any]] = {"lstm": _lstm_step, "gru": _gru_step, "tanh": _tanh_step, "relu": _relu_step}


def unrolled(
    kind: str, x: Tensor, h: Tensor, c: Any, weights: Sequence[Any], sizes: list[int], reverse: bool
) -> tuple[Tensor, Tensor, Any]:
    """One layer and direction with public ops: (y, last h, last c). ``weights``: w_ih, w_hh, b_ih, b_hh[, w_hr]."""
    cat, step = SPACES["torch"]["cat"], _STEPS[kind]
    w_ih, w_hh, b_ih, b_hh = weights[:4]
    project = weights[4] if len(weights) > 4 else None
    gates = linear(x, w_ih, b_ih)
    outs: list[tuple[int, Tensor]] = []
    for s, n in K.steps(sizes, reverse):
        hn, cn = step(gates.narrow(0, s, n), h.narrow(0, 0, n), None if c is None else c.narrow(0, 0, n), w_hh, b_hh)
        if project is not None:
            hn = linear(hn, project)
        outs.append((s, hn))
        rest = h.shape[0] - n
        h = cat([hn, h.narrow(0, n, rest)]) if rest else hn
        if c is not None:
            c = cat([cn, c.narrow(0, n, rest)]) if rest else cn
    ordered = [y for _, y in sorted(outs, key=lambda e: e[0])]
    return cat(ordered) if ordered else x.new_zeros((0, h.shape[1])), h, c


def _again(kind: str, g: Any, needs: Any, inputs: Sequence[Any], sizes: Any, reverse: bool) -> tuple[Any, ...]:
    """Differentiable gradients: the layer recomputed step by step and differentiated with create_graph."""
    outs = unrolled(kind, inputs[0], inputs[1], inputs[2], inputs[3:], sizes, reverse)
    live = [(o, d) for o, d in zip(outs, g) if o is not None and d is not None and o.n is not None]
    wanted = [t for t, need in zip(inputs, needs) if need]
    if not live:
        return tuple(None for _ in inputs)
    roots, grads = tape.make_roots([o for o, _ in live], [d for _, d in live])
    got = iter(tape.run_backward(roots, grads, True, True, wanted, accumulate=False))
    return tuple(next(got) if need else None for need in needs)


# ---------------------------------------------------------------------- fused layers
# PyTorch's steps reach the hidden side first, its bias before its weight; leaves with equal claims leave the heap as 5, 3, 4, 2
for _row, _label in (("gru_layer", "GruBackward0"), ("elman_layer", "RnnLayerBackward0")):
    ORDER[_row, _label] = (5, 4, 3, 2, 0, 1)


@op(
    "lstm_layer_backward(T x, T h0, T c0, T w_ih, T w_hh, T y, T gates, T cells, T? gy, T? gh, T? gc, any sizes, "
    "bool reverse)",
    ns="_C",
    half="f32",
    grad={},
)
def _lstm_backward(
    x: Any,
    h0: Any,
    c0: Any,
    w_ih: Any,
    w_hh: Any,
    y: Any,
    gates: Any,
    cells: Any,
    gy: Any,
    gh: Any,
    gc: Any,
    sizes: Any,
    reverse: bool,
) -> Any:
    """Gradients of x, h0, c0, w_ih, w_hh and of either bias."""
    return K.lstm_backward((gy, gh, gc), x, h0, c0, w_ih, w_hh, y, gates, cells, sizes, reverse)


def _lstm_rule(
    g: Any,
    needs: Any,
    x: Any,
    h0: Any,
    c0: Any,
    w_ih: Any,
    w_hh: Any,
    b_ih: Any,
    b_hh: Any,
    sizes: Any,
    reverse: Any,
    out: Any,
) -> tuple[Any, ...]:
    if modes.grad_on():
        return _again("lstm", g[:3], needs, (x, h0, c0, w_ih, w_hh, b_ih, b_hh), sizes, reverse)
    got = _lstm_backward(x, h0, c0, w_ih, w_hh, out[0], out[3], out[4], g[0], g[1], g[2], sizes, reverse)
    every = (*got, got[5])
    return tuple(v if need else None for v, need in zip(every, needs))


@op(
    "lstm_layer(T x, T h0, T c0, T w_ih, T w_hh, T? b_ih, T? b_hh, any sizes, bool reverse)",
    ns="_C",
    half="f32",
    nondiff=(3, 4),
    node="MkldnnRnnLayerBackward0",
    grad=vjp(_NAMES, _lstm_rule),
)
def _lstm_layer(x: Any, h0: Any, c0: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, sizes: Any, reverse: bool) -> Any:
    """(y, last h, last c, gates, cells) of flat rows x (B, I)."""
    return K.lstm(x, h0, c0, w_ih, w_hh, b_ih, b_hh, sizes, reverse)


@op(
    "gru_layer_backward(T x, T h0, T w_ih, T w_hh, T y, T gates, T hidden, T? gy, T? gh, any sizes, bool reverse)",
    ns="_C",
    half="f32",
    grad={},
)
def _gru_backward(
    x: Any, h0: Any, w_ih: Any, w_hh: Any, y: Any, gates: Any, hidden: Any, gy: Any, gh: Any, sizes: Any, reverse: bool
) -> Any:
    """Gradients of x, h0, w_ih, w_hh, b_ih, b_hh."""
    return K.gru_backward((gy, gh), x, h0, w_ih, w_hh, y, gates, hidden, sizes, reverse)


def _gru_rule(
    g: Any, needs: Any, x: Any, h0: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, sizes: Any, reverse: Any, out: Any
) -> tuple[Any, ...]:
    if modes.grad_on():
        got = _again(
            "gru",
            (*g[:2], None),
            [*needs[:2], False, *needs[2:]],
            (x, h0, None, w_ih, w_hh, b_ih, b_hh),
            sizes,
            reverse,
        )
        return got[:2] + got[3:]
    got = _gru_backward(x, h0, w_ih, w_hh, out[0], out[2], out[3], g[0], g[1], sizes, reverse)
    return tuple(v if need else None for v, need in zip(got, needs))


@op(
    "gru_layer(T x, T h0, T w_ih, T w_hh, T? b_ih, T? b_hh, any sizes, bool reverse)",
    ns="_C",
    half="f32",
    nondiff=(2, 3),
    node="GruBackward0",
    grad=vjp(("x", "h0", "w_ih", "w_hh", "b_ih", "b_hh"), _gru_rule),
)
def _gru_layer(x: Any, h0: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, sizes: Any, reverse: bool) -> Any:
    """(y, last h, gates, hidden part of the candidate) of flat rows x (B, I)."""
    return K.gru(x, h0, w_ih, w_hh, b_ih, b_hh, sizes, reverse)


@op(
    "elman_layer_backward(T x, T h0, T w_ih, T w_hh, T y, T? gy, T? gh, bool relu, any sizes, bool reverse)",
    ns="_C",
    half="f32",
    grad={},
)
def _elman_backward(
    x: Any, h0: Any, w_ih: Any, w_hh: Any, y: Any, gy: Any, gh: Any, relu: bool, sizes: Any, reverse: bool
) -> Any:
    """Gradients of x, h0, w_ih, w_hh and of either bias."""
    return K.elman_backward((gy, gh), x, h0, w_ih, w_hh, y, relu, sizes, reverse)


def _elman_rule(
    g: Any,
    needs: Any,
    x: Any,
    h0: Any,
    w_ih: Any,
    w_hh: Any,
    b_ih: Any,
    b_hh: Any,
    relu: Any,
    sizes: Any,
    reverse: Any,
    out: Any,
) -> tuple[Any, ...]:
    if modes.grad_on():
        kind = "relu" if relu else "tanh"
        got = _again(
            kind, (*g[:2], None), [*needs[:2], False, *needs[2:]], (x, h0, None, w_ih, w_hh, b_ih, b_hh), sizes, reverse
        )
        return got[:2] + got[3:]
    got = _elman_backward(x, h0, w_ih, w_hh, out[0], g[0], g[1], relu, sizes, reverse)
    return tuple(v if need else None for v, need in zip((*got, got[4]), needs))


@op(
    "elman_layer(T x, T h0, T w_ih, T w_hh, T? b_ih, T? b_hh, bool relu, any sizes, bool reverse)",
    ns="_C",
    half="f32",
    node="RnnLayerBackward0",
    grad=vjp(("x", "h0", "w_ih", "w_hh", "b_ih", "b_hh"), _elman_rule),
)
def _elman_layer(
    x: Any, h0: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, relu: bool, sizes: Any, reverse: bool
) -> Any:
    """(y, last h) of flat rows x (B, I)."""
    return K.elman(x, h0, w_ih, w_hh, b_ih, b_hh, relu, sizes, reverse)


def _layer(
    kind: str, x: Tensor, h: Tensor, c: Any, weights: Sequence[Any], sizes: list[int], reverse: bool
) -> tuple[Tensor, Tensor, Any]:
    if len(weights) > 4:
        return unrolled(kind, x, h, c, weights, sizes, reverse)
    if kind == "lstm":
        y, h, c = _lstm_layer(x, h, c, *weights, sizes, reverse)[:3]
        return y, h, c
    if kind == "gru":
        return (*_gru_layer(x, h, *weights, sizes, reverse)[:2], None)
    return (*_elman_layer(x, h, *weights, kind == "relu", sizes, reverse)[:2], None)


# ---------------------------------------------------------------------- whole networks
def _groups(params: Sequence[Tensor], biases: bool, projected: bool) -> list[list[Any]]:
    """Weights of each layer and direction as [w_ih, w_hh, b_ih, b_hh] (and w_hr of a projection)."""
    per = 2 + 2 * biases + projected
    check(len(params) % per == 0, RuntimeError, f"rnn: {len(params)} weights do not divide into groups of {per}")
    out = []
    for i in range(0, len(params), per):
        part = list(params[i : i + per])
        group: list[Any] = part[:4] if biases else [*part[:2], None, None]
        out.append(group + part[-1:] if projected else group)
    return out


def _network(
    kind: str,
    x: Tensor,
    sizes: list[int],
    hx: tuple[Any, Any],
    groups: list[list[Any]],
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    shape: tuple[int, ...] | None,
) -> tuple[Tensor, Tensor, Any]:
    """All layers over flat rows; ``shape`` (T, N) restores a padded batch between layers for dropout."""
    cat, stack = SPACES["torch"]["cat"], SPACES["torch"]["stack"]
    directions = 2 if bidirectional else 1
    check(
        len(groups) == num_layers * directions,
        RuntimeError,
        f"rnn: {len(groups)} groups of weights for {num_layers} layers in {directions} direction(s)",
    )
    h0, c0 = hx
    last_h, last_c = [], []
    for layer in range(num_layers):
        outs = []
        for d in range(directions):
            k = layer * directions + d
            y, h, c = _layer(kind, x, h0[k], None if c0 is None else c0[k], groups[k], sizes, d == 1)
            outs.append(y)
            last_h.append(h)
            last_c.append(c)
        x = outs[0] if directions == 1 else cat(outs, 1)
        if dropout > 0 and train and layer < num_layers - 1:
            wide = x if shape is None else x.reshape([*shape, x.shape[1]])
            x = SPACES["F"]["dropout"](wide, dropout, True).reshape(x.shape)
    return x, stack(last_h), None if c0 is None else stack(last_c)


def _padded(
    kind: str,
    input: Tensor,
    hx: tuple[Any, Any],
    params: Any,
    biases: bool,
    options: tuple[int, float, bool, bool, bool],
) -> tuple[Any, ...]:
    num_layers, dropout, train, bidirectional, batch_first = options
    projected = hx[1] is not None and hx[1].shape[2] != hx[0].shape[2]
    x = input.transpose(0, 1) if batch_first else input
    steps, batch = x.shape[:2]
    groups = _groups(params, biases, projected)
    flat, h, c = _network(
        kind,
        x.reshape(steps * batch, x.shape[2]),
        [batch] * steps,
        hx,
        groups,
        num_layers,
        dropout,
        train,
        bidirectional,
        (steps, batch),
    )
    y = flat.reshape(steps, batch, flat.shape[1])
    y = y.transpose(0, 1) if batch_first else y
    return (y, h) if c is None else (y, h, c)


def _packed(
    kind: str,
    data: Tensor,
    sizes: Tensor,
    hx: tuple[Any, Any],
    params: Any,
    biases: bool,
    options: tuple[int, float, bool, bool],
) -> tuple[Any, ...]:
    num_layers, dropout, train, bidirectional = options
    projected = hx[1] is not None and hx[1].shape[2] != hx[0].shape[2]
    lengths = [int(n) for n in sizes.a.tolist()]
    groups = _groups(params, biases, projected)
    y, h, c = _network(kind, data, lengths, hx, groups, num_layers, dropout, train, bidirectional, None)
    return (y, h) if c is None else (y, h, c)


def _front(name: str, kind: str) -> Callable[..., Any]:
    """``torch.lstm`` and its kin: (input, hx, params, ...) or packed (data, batch_sizes, hx, params, ...)."""

    def states(hx: Any) -> tuple[Any, Any]:
        if kind == "lstm":
            check(len(hx) == 2, RuntimeError, "lstm expects two hidden states")
            return hx[0], hx[1]
        return hx, None

    def call(
        input: Tensor,
        second: Any,
        third: Any,
        fourth: Any,
        has_biases: Any = True,
        num_layers: Any = 1,
        dropout: Any = 0.0,
        train: Any = False,
        bidirectional: Any = False,
        batch_first: Any = False,
    ) -> tuple[Any, ...]:
        if isinstance(fourth, (list, tuple)):
            options = (int(num_layers), float(dropout), bool(train), bool(bidirectional))
            return _packed(kind, input, second, states(third), fourth, bool(has_biases), options)
        # padded form: (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
        biases, layers, p, training, both, first = fourth, has_biases, num_layers, dropout, train, bidirectional
        flags = (int(layers), float(p), bool(training), bool(both), bool(first))
        return _padded(kind, input, states(second), third, bool(biases), flags)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = (
        f"{name}(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first), "
        "or for a packed "
        "sequence (data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional)."
    )
    return call


lstm, gru = _front("lstm", "lstm"), _front("gru", "gru")
rnn_tanh, rnn_relu = _front("rnn_tanh", "tanh"), _front("rnn_relu", "relu")
put("torch", lstm=lstm, gru=gru, rnn_tanh=rnn_tanh, rnn_relu=rnn_relu)


# ---------------------------------------------------------------------- cells
def _cell(kind: str, input: Tensor, h: Tensor, c: Any, weights: tuple[Any, ...]) -> tuple[Tensor, Any]:
    check(
        input.shape[-1] == weights[0].shape[1],
        RuntimeError,
        f"input has inconsistent input_size: got {input.shape[-1]} expected {weights[0].shape[1]}",
    )
    check(
        h.shape[-1] == weights[1].shape[1],
        RuntimeError,
        f"hidden has inconsistent hidden_size: got {h.shape[-1]}, expected {weights[1].shape[1]}",
    )
    _, h, c = _layer(kind, input, h, c, weights, [input.shape[0]], False)
    return h, c


@composite("lstm_cell(T input, any hx, T w_ih, T w_hh, T? b_ih=None, T? b_hh=None)", ns="torch")
def lstm_cell(input: Tensor, hx: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Any, b_hh: Any) -> tuple[Tensor, Tensor]:
    """One LSTM step: (h, c)."""
    check(len(hx) == 2, RuntimeError, "lstm_cell expects two hidden states")
    return _cell("lstm", input, hx[0], hx[1], (w_ih, w_hh, b_ih, b_hh))


def _simple_cell(name: str, kind: str) -> None:
    @composite(f"{name}(T input, T hx, T w_ih, T w_hh, T? b_ih=None, T? b_hh=None)", ns="torch")
    def cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Any, b_hh: Any) -> Tensor:
        """One step of the recurrent cell: the new h."""
        return _cell(kind, input, hx, None, (w_ih, w_hh, b_ih, b_hh))[0]


_simple_cell("gru_cell", "gru")
_simple_cell("rnn_tanh_cell", "tanh")
_simple_cell("rnn_relu_cell", "relu")
