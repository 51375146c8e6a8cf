"""``ts.proposal``: when a program fails, what the error means and what to do about it."""

from __future__ import annotations

import os
import re
import sys
import textwrap
import traceback
from contextlib import ContextDecorator
from typing import Any, NamedTuple

from mindtorch.tools.dump.stacks import is_framework


class Advice(NamedTuple):
    """One entry: a pattern of ``ExceptionName: message``, what causes it, what helps."""

    pattern: str
    cause: str
    remedy: str


KNOWN = (
    Advice(
        r"mat1 and mat2 shapes cannot be multiplied",
        "A matrix product (usually a Linear layer) got rows of another length than its in_features.",
        "Print the shape before the layer; flatten with start_dim=1; compute in_features from the real input, or use nn.LazyLinear.",
    ),
    Advice(
        r"expected input\[.*\] to have \d+ channels",
        "A convolution got another number of channels than its in_channels, or the image is in NHWC order.",
        "PyTorch's layout is NCHW: use x.permute(0, 3, 1, 2) for NHWC data, or change in_channels.",
    ),
    Advice(
        r"size of tensor a \(\d+\) must match|shapes? .*(broadcast|incompatible)|The size of tensor",
        "Two operands of an elementwise operation have shapes that do not broadcast.",
        "Print both shapes; a dimension must be equal or 1. Losses often need target.unsqueeze(1) or output.squeeze(1).",
    ),
    Advice(
        r"shape '.*' is invalid for input of size|invalid for input of size",
        "view or reshape was asked for a shape with another number of elements.",
        "Let one dimension be -1 (x.view(x.size(0), -1)) and check whether the last batch is smaller (DataLoader drop_last=True).",
    ),
    Advice(
        r"view size is not compatible|at least one dimension spans across two",
        "view was called on a tensor whose memory does not allow it (after permute or transpose).",
        "Use reshape, or contiguous() before view.",
    ),
    Advice(
        r"Sizes of tensors must match except in dimension",
        "torch.cat or torch.stack got tensors with different shapes.",
        "All dimensions but the one joined must be equal; pad shorter sequences (nn.utils.rnn.pad_sequence, a collate_fn).",
    ),
    Advice(
        r"Target \S+ is out of bounds|index \S+ is out of bounds|IndexError: index out of range in self",
        "A label or an index is not smaller than the number of classes or of rows in the table.",
        "Labels start at 0 and end at classes - 1; num_embeddings must exceed the largest token. -100 is ignored by cross_entropy only.",
    ),
    Advice(
        r"expected (scalar type|m1 and m2|.*same dtype)|must have the same dtype|should be the same|Found dtype",
        "Operands have different dtypes (often float64 from NumPy against float32 weights, or int64 labels).",
        "Convert once where data comes in: torch.from_numpy(a).float(); class labels are int64: y.long().",
    ),
    Advice(
        r"does not require grad and does not have a grad_fn",
        "backward was called on a value that no parameter leads to.",
        "Look for no_grad, detach(), .data, item() or NumPy on the way to the loss, and for requires_grad=False parameters.",
    ),
    Advice(
        r"Trying to backward through the graph a second time",
        "One part of the graph was walked by backward twice; its saved values are gone.",
        "Compute the forward again for every backward, detach hidden states carried over between steps, or use retain_graph=True.",
    ),
    Advice(
        r"modified by an inplace operation",
        "A value that backward needs was overwritten (x += 1, relu_(), x[...] = y) after it had been used.",
        "Write x = x + 1; use inplace=False; clone() before the write. torch.autograd.set_detect_anomaly(True) names the forward line.",
    ),
    Advice(
        r"leaf Variable that requires grad .*in-place|a view of a leaf Variable",
        "A parameter is changed in place where gradients are recorded.",
        "Put the change into `with torch.no_grad():`.",
    ),
    Advice(
        r"element 0 of tensors|grad can be implicitly created only for scalar outputs",
        "backward without an argument needs a single number.",
        "Reduce the loss (loss.mean() or loss.sum()), or give backward a gradient of the output's shape.",
    ),
    Advice(
        r"Can't call numpy\(\) on Tensor that requires grad",
        "NumPy cannot hold a value that gradients are recorded for.",
        "Use x.detach().numpy() (and .cpu() before it on a GPU).",
    ),
    Advice(
        r"Error\(s\) in loading state_dict|Missing key\(s\) in state_dict|Unexpected key\(s\)",
        "The saved weights and the network do not have the same names or shapes.",
        "Remove a prefix such as 'module.' (DataParallel); python -m mindtorch convert --diff A B shows names and shapes; "
        "strict=False loads what fits.",
    ),
    Advice(
        r"Weights only load failed|weights_only",
        "The file holds Python objects and torch.load reads weights only.",
        "Save net.state_dict(); for a file you trust, torch.load(f, weights_only=False).",
    ),
    Advice(
        r"Torch not compiled with CUDA|No CUDA|CUDA (is not|out of|error)|cuda.*not available|Invalid device|Expected all tensors to be on the same device",
        "A device is named that is not here, or operands are on different devices.",
        "Write device = 'cuda' if torch.cuda.is_available() else 'cpu' and move net and data there; torch.load(..., map_location=device).",
    ),
    Advice(
        r"DataLoader worker .*(exited|killed)|bus error|bootstrapping phase|An attempt has been made to start a new process",
        "A worker process of a DataLoader died or was started from an unguarded script.",
        "Set num_workers=0 to see the real error; put the program under if __name__ == '__main__':; give the container more shared memory.",
    ),
    Advice(
        r"stack expects each tensor to be equal size|each element in list of batch should be of equal size",
        "The samples of one batch have different shapes.",
        "Resize or pad them in the dataset, or give the DataLoader a collate_fn.",
    ),
    Advice(
        r"Expected more than 1 value per channel when training",
        "Batch norm in training mode got a single value per channel (a last batch of size 1).",
        "DataLoader(drop_last=True), or net.eval() for inference.",
    ),
    Advice(
        r"only batches of spatial targets|multi-target not supported|0D or 1D target",
        "The target of a class loss has another shape than (N,) or (N, ...).",
        "Class numbers have no channel dimension: target.squeeze(1); one-hot targets become numbers by target.argmax(1).",
    ),
    Advice(
        r"(nan|inf).* values|returned nan values in its \d+th output|must be finite|contains? NaN",
        "NaN or infinite numbers appeared.",
        "ts.tracking(check_keyword='nan') or python -m mindtorch compare name the first call that makes them; look for log(0), division "
        "by 0, exp of large numbers, a learning rate that is too large.",
    ),
    Advice(
        r"No module named 'torch(vision|audio|text)?(\.|')|this program runs on mindtorch",
        "A module is imported that this environment, or mindtorch, does not have.",
        "The message names it; see docs/support.md for what there is, or run that part in PyTorch.",
    ),
    Advice(
        r"MemoryError|DefaultCPUAllocator|[Cc]annot allocate memory|out of memory",
        "The memory of the machine or device is used up.",
        "Smaller batches, with torch.no_grad() in evaluation, total += loss.item() and not total += loss, checkpointing.",
    ),
    Advice(
        r"For '(\w+)', .*(shape|dim)|mindspore.*(shape|dim)",
        "An operator of MindSpore got shapes or dimensions it cannot use.",
        "Compare the shapes in the message with the operator's page; layouts and argument order differ from PyTorch in places.",
    ),
    Advice(
        r"For '(\w+)', .*(type|dtype)|Unsupported (op|dtype)|kernel.*(not|un)support",
        "An operator of MindSpore has no kernel for this dtype on this device.",
        "Cast to float32 before the call and back behind it; mindspore.set_context(device_target=...) chooses the device.",
    ),
)


def advice_for(error: BaseException) -> list[Advice]:
    """Entries that fit an exception, or one of those it came from."""
    found: list[Advice] = []
    seen: set[int] = set()
    e: BaseException | None = error
    while e is not None and id(e) not in seen:
        seen.add(id(e))
        text = f"{type(e).__name__}: {e}"
        found += [a for a in KNOWN if a not in found and re.search(a.pattern, text, re.S)]
        e = e.__cause__ or e.__context__
    return found


def _own_lines(error: BaseException) -> list[str]:
    """The traceback without the frames of frameworks."""
    kept = [f for f in traceback.extract_tb(error.__traceback__) if not is_framework(f.filename) and f.filename != __file__]
    return [line.rstrip("\n") for line in traceback.format_list(kept)]


def report(error: BaseException, clear_stack: bool = False) -> str:
    """Error, cause, suggestion and the program's last line as a table of text."""
    own = _own_lines(error)
    message = textwrap.shorten(str(error) or "(no message)", 600)
    rows = [("Error", f"{type(error).__name__}: {message}")]
    found = advice_for(error)
    for a in found[:3]:
        rows += [("Cause", a.cause), ("Proposal", a.remedy)]
    if not found:
        rows.append(("Proposal", "No entry of the knowledge base fits. The line below is where your program made the call."))
    if own:
        rows.append(("Your code", " ".join(own[-1].split())))
    rule = "+" + "-" * 12 + "+" + "-" * 102 + "+"
    lines = [rule]
    for head, text in rows:
        for i, piece in enumerate(textwrap.wrap(text, 100) or [""]):
            lines.append(f"| {head if i == 0 else '':<10} | {piece:<100} |")
        lines.append(rule)
    if clear_stack and own:
        lines += ["Your program's lines of the traceback (frames of frameworks left out):", *own]
    return "\n".join(lines)


class proposal(ContextDecorator):  # noqa: N801  (the name users know)
    """Decorator or context: an exception that leaves it is explained on stderr, and goes on.

    Args:
        write_file_path: a folder or file; the text is added to it (``mindspore_failure_analysis_report.log`` in a folder).
        print_clear_stack: show the program's own lines of the traceback too.

    TypeError when ``print_clear_stack`` is no bool.
    """

    def __init__(self, write_file_path: Any = None, print_clear_stack: bool = False) -> None:
        if not isinstance(print_clear_stack, bool):
            raise TypeError(f"proposal: print_clear_stack must be True or False, got {print_clear_stack!r}")
        self.path = None if write_file_path is None else os.fspath(write_file_path)
        self.clear = print_clear_stack

    def __enter__(self) -> proposal:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or not isinstance(error, Exception):
            return
        text = report(error, self.clear)
        print(text, file=sys.stderr)
        if self.path is not None:
            path = os.path.join(self.path, "mindspore_failure_analysis_report.log") if os.path.isdir(self.path) else self.path
            with open(path, "a", encoding="utf-8") as f:
                f.write(text + "\n")
