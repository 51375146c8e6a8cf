"""Public names of PyTorch per namespace: works, partial (what fails) or absent (why), for the conformance page."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

SPACES = (
    "torch", "torch.Tensor", "torch.nn", "torch.nn.functional", "torch.nn.init", "torch.nn.utils", "torch.nn.utils.rnn",
    "torch.linalg", "torch.fft", "torch.special", "torch.masked", "torch.optim", "torch.optim.lr_scheduler", "torch.autograd",
    "torch.autograd.functional", "torch.utils.data", "torch.utils.checkpoint", "torch.distributions", "torch.func", "torch.amp",
    "torch.random", "torch.testing", "torch.cuda", "torch.cpu", "torch.accelerator", "torch.jit", "torch.hub", "torch.sparse",
    "torch.signal.windows",
)  # fmt: skip

# reason -> names (a regular expression over the whole name); the first that fits is taken
REASONS = (
    (
        "TorchScript, its compiler and its types",
        r"Script|^(parse_|import_ir|merge_type|unify_type)|(Type|IODescriptor)$|Tracing|^(Ali|Arg)|^(Block|CallStack|Capsule|Code|"
        r"CompilationUnit|CompleteArgumentSpec|ConcreteModule\w*|DeepCopyMemoTable|DeserializationStorageContext|"
        r"SerializationStorageContext|ErrorReport|ExecutionPlan|FatalError|FileCheck|FunctionSchema|Gradient|Graph|GraphExecutorState|"
        r"JITException|LockingLogger|LoggerBase|NoopLogger|Node|OperatorInfo|StaticModule|SUM|AVG|AggregationType|Type|Use|Value|"
        r"ModuleDict|ParameterDict|BufferDict|Future|fork|wait|Await|PyTorchFile\w+|get_file_path|export\w*|freeze|optimize_for_inference|"
        r"run_frozen_optimizations|set_fusion_strategy|strict_fusion|onednn_fusion_enabled|enable_onednn_fusion|last_executed_optimized_graph|"
        r"interface|Attribute|Final|ONNXTracedModule|Top\w+|trace_module|jit_module_from_flatbuffer|save_jit_module_to_flatbuffer|"
        r"set_module|isinstance|annotate|LintError|Error|save|load)$",
    ),
    (
        "quantised tensors",
        r"quant|^q_|^qint|^quint|^qscheme|^fbgemm|^per_(channel|tensor)|^QU?Int|int_repr|fused_moving_avg|scaled_mm|scaled_grouped|"
        r"choose_qparams|Scaling|Swizzle|grouped_mm",
    ),
    (
        "sparse layouts",
        r"sparse|^(c?col|c?row|crow)_indices|^(indices|values|coalesce|dense_dim|smm|sspaddmm|saddmm|dsmm|hsmm|hspmm|index|jagged)(_copy)?$|"
        r"to_padded_tensor|check_sparse|spdiags|as_sparse",
    ),
    (
        "CUDA, ROCm and other accelerators' own libraries and settings",
        r"cudnn|miopen|mkldnn|cuda|CUDA|cupti|graph|Graph|mem_|Mem|memory_|nccl|nvtx|jiterator|gds|green|Green|tunable|"
        r"_ipu|_xla|^(ipu|xpu|mtia|is_ipu|is_xla|is_vulkan|is_maia|is_mtia|is_vulkan_available)$|^batch_norm_(backward_|elemt|gather|stats|update)|"
        r"clock_rate|power_draw|temperature|utilization|Stream|Event|stream|event|ipc_|host_memory|peer|caching_|sanitizer|kernels|"
        r"device_memory|comm|cusparselt|has_half|has_magma|list_gpu|get_sync|set_sync|default_blas|can_device",
    ),
    ("dtypes NumPy and ml_dtypes 0.5 arrays do not carry here", r"complex32|chalf|Half$|float8|float4|^bits?\d|^bit$|^u?int[1-7]$|DType"),
    (
        "sizes traced by PyTorch's compiler; its control flow and dispatcher",
        r"^Sym|^sym_|^cond$|^while_loop$|Dispatch|^Tag$|DisableTorchFunction|Exclude|_notes$|common|dispatch|reproducibility",
    ),
    (
        "library internals that are not documented",
        r"USE_|PRIVATE|Capsule|Benchmark|Throughput|init_num_threads|prepare_multi|compiled_with|BroadcastingList|GRID_SAMPLE|assert_int|"
        r"boolean_dispatch|torch_function|classproperty|native_|slice_inverse|is_tensor_like|variable|ProfilerC|ProfilerE|ProfilerS|"
        r"ProfilerA|kineto|DeviceType|SavedTensor|multithreading|view_replay|NestedIO|enforce_grad|from_file|storage_type|is_distributed|"
        r"map2_|volatile|reinforce|record_stream|module_load|grad_dtype|legacy_contiguous|DeviceObjType|StreamObj|Storage|segment_reduce|"
        r"has_(lapack|mkl|openmp|spectral)|anomaly|norm_except_dim|SAC_IGNORED|non_deterministic|lobpcg|rearrange|swap_in|argument_validation|runtime_validation|datapipe",
    ),
    ("prototype classes", r"masked_tensor|MaskedTensor|SemiStructured"),
    ("DataPipes, removed from PyTorch's documentation", r"DataPipe|DataChunk"),
)  # fmt: skip
NOT_YET = "not yet"


def reason(space: str, name: str) -> str:
    """Why ``name`` of ``space`` is absent."""
    return next((why for why, rule in REASONS if re.search(rule, name)), NOT_YET)


def _foreign(module: Any, name: str, thing: Any) -> bool:
    """Whether a module merely imported this name: typing and standard library helpers, names outside its ``__all__``."""
    listed = getattr(module, "__all__", None)
    if listed is not None and name not in listed:
        return True
    if name in ("Tensor", "Optimizer"):
        return True
    home = getattr(thing, "__module__", None) or ""
    return (
        inspect.ismodule(thing)
        or (isinstance(home, str) and home.split(".")[0] in ("typing", "typing_extensions", "collections", "functools", "builtins",
            "warnings", "contextlib", "enum", "bisect", "types", "dataclasses", "itertools", "weakref", "operator", "abc", "os", "re")
            and inspect.isroutine(thing) | inspect.isclass(thing) and not hasattr(thing, "_torch")
            and home != "builtins")
        or type(thing).__module__ in ("typing", "__future__")
        or name in ("TYPE_CHECKING", "annotations", "inf", "Any", "Optional", "Callable")
    )  # fmt: skip


def public(space: str, theirs: Any) -> list[str]:
    """Public names of PyTorch's namespace."""
    names = [n for n in dir(theirs) if not n.startswith("_")]
    if space == "torch.Tensor":
        return names
    module = theirs if space != "torch" else None
    return [n for n in names if not _foreign(module, n, getattr(theirs, n, None))]


def _at(root: Any, path: list[str]) -> Any:
    for part in path:
        try:
            root = getattr(root, part)
        except AttributeError:
            try:
                root = importlib.import_module(f"{root.__name__}.{part}")
            except (ImportError, AttributeError):
                return None
    return root


def table(failing: dict[str, str]) -> dict[str, dict[str, str]]:
    """Per namespace: name -> "works", "partial: what fails" or "absent: why". ``failing``: op_db entries by name."""
    import mindtorch.torch as mt
    import torch

    out: dict[str, dict[str, str]] = {}
    for space in SPACES:
        path = space.split(".")[1:]
        theirs, ours = _at(torch, path), _at(mt, path)
        prefix = {"torch.nn.functional": "nn.functional."}.get(space, ".".join(path) + "." if path else "")
        prefix = "" if space == "torch.Tensor" else prefix
        rows = {}
        for n in public(space, theirs):
            if ours is None or not _has(ours, n):
                rows[n] = f"absent: {reason(space, n)}"
            elif _refuses(ours, n):
                rows[n] = "partial: present, but says why it cannot run (RuntimeError)"
            else:
                why = failing.get(prefix + n)
                rows[n] = f"partial: {why}" if why else "works"
        out[space] = rows
    return out


def _has(ours: Any, name: str) -> bool:
    try:
        getattr(ours, name)
    except AttributeError:
        return False
    return True


def _refuses(ours: Any, name: str) -> bool:
    """Functions that exist only to say what to do instead."""
    doc = inspect.getdoc(getattr(ours, name, None)) or ""
    return doc.startswith("Refused with")


def ignored_arguments(root: Path) -> list[tuple[str, str, str, str]]:
    """(file, op, argument, reason) of every ``log.ignored`` call in the package."""
    found = []
    for path in sorted((root / "src" / "mindtorch").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name.lstrip("_") == "ignored" and len(node.args) == 3 and "tools" not in path.parts:
                where = path.relative_to(root / "src" / "mindtorch").as_posix()
                op, arg, why = (a.value if isinstance(a, ast.Constant) else f"several in {where}" for a in node.args)
                found.append((where, str(op), str(arg), str(why)))
    return found


def declared_deviations() -> list[tuple[str, str]]:
    """(op, note) of every row that declares one."""
    import mindtorch.torch as mt
    from mindtorch.ops.table import ROWS

    assert mt.Tensor is not None
    return [(row.name, row.note) for row in ROWS if row.note]


def kernel_deviations() -> list[tuple[str, str]]:
    """(row, note) of every MindSpore kernel that differs from the host's by more than rounding."""
    from mindtorch.engine.mindspore.kernels.differs import DIFFERS

    return list(DIFFERS.items())
