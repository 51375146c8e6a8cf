"""Fused kernels: nopython source with a NumPy fallback, compiled lazily by numba once it pays.

``fused`` wraps a kernel. Calls go to the fallback until the process has seen enough work to repay loading numba
(0.17 s) and this kernel enough to repay its compilation (2-4 ms from the disk cache, 0.1-0.8 s cold). Without numba,
after a failed compilation, with ``MINDTORCH_NUMBA=0`` or after ``forbid()`` (DataLoader workers) the fallback stays
for ever. Nothing here imports numba at module level.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
import threading
import types
import zlib
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import numpy as np

from mindtorch import log
from mindtorch.engine import used

LOAD_WORK = 4_000_000
"""Elements all fused kernels together must have processed before numba is loaded."""
KERNEL_WORK = 400_000
"""Elements one kernel must have processed before it is compiled."""
CALL_WORK = 1_000
"""What a call counts beside its elements: several NumPy calls cost more than one compiled call."""
PARALLEL_MIN = 131_072
"""Elements below which a transcendental or row kernel stays on one thread."""

_registry: list[Fused] = []
_lock = threading.RLock()
_work = 0
_off = os.environ.get("MINDTORCH_NUMBA", "auto").strip().lower() in {"0", "off", "false"}
_eager = os.environ.get("MINDTORCH_NUMBA", "auto").strip().lower() in {"1", "on", "always"}
_space: dict[str, Any] | None = None
_numba: Any = None
_serialise = False
_threads = 0
_forked = False


def _after_fork() -> None:
    """libgomp kills a forked child that opens a parallel region, so children stay on one thread."""
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def set_threads(n: int) -> None:
    """Set how many threads parallel kernels may use (``torch.set_num_threads``)."""
    global _threads
    _threads = max(1, int(n))


def num_threads() -> int:
    """Threads parallel kernels may use: ``set_threads``, else OMP_NUM_THREADS, else the CPUs of this process."""
    global _threads
    if _threads == 0:
        cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        env = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
        _threads = min(cpus, int(env)) if env.isdigit() and int(env) > 0 else cpus
    return 1 if _forked else _threads


def threads_for(elements: int, minimum: int = PARALLEL_MIN) -> int:
    """Thread count to pass to a parallel kernel working on ``elements`` elements."""
    return 1 if elements < minimum else num_threads()


def forbid() -> None:
    """Never load numba in this process and send every kernel to its fallback (called in DataLoader workers)."""
    global _off
    _off = True
    for kernel in _registry:
        kernel._give_up()


def loaded() -> bool:
    """Whether numba has been loaded by this room."""
    return _numba is not None


def ready() -> bool:
    """Whether enough work was seen that fused kernels are (or may now be) compiled: callers may route to them."""
    return not _off and (_eager or _numba is not None or _work >= LOAD_WORK)


def _cache_dir(flavour: str) -> str | None:
    """A writable folder for compiled code, keyed by our helper sources, so that a changed helper recompiles."""
    here = os.path.dirname(os.path.abspath(__file__))
    digest = hashlib.sha256()
    for name in ("jit.py", "fastmath.py"):
        with open(os.path.join(here, name), "rb") as source:
            digest.update(source.read())
    key = f"{_numba.__version__}-{sys.version_info[0]}{sys.version_info[1]}-{digest.hexdigest()[:12]}"
    home = os.environ.get("MINDTORCH_CACHE") or os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    uid = os.getuid() if hasattr(os, "getuid") else 0
    temporary = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"mindtorch-{uid}")
    for root in (home, temporary):
        path = os.path.join(root, "mindtorch", "numba", key, flavour)
        try:
            os.makedirs(path, exist_ok=True)
        except OSError:
            continue
        if os.access(path, os.W_OK):
            return path
    return None


def _load() -> bool:
    """Import numba and build the names kernels may use; False when numba is not usable."""
    global _numba, _space, _off
    if _space is not None:
        return True
    if _off:
        return False
    try:
        import numba
        from llvmlite import binding
    except (ImportError, OSError, AttributeError, RuntimeError, SystemError) as error:  # a broken install included
        _off = True
        log.logger().log(logging.INFO, "numba is not usable (%s): NumPy kernels stay in use", error)
        return False
    if not numba.config.CPU_FEATURES and not numba.config.CPU_NAME:
        # Vectors of 512 bits: 1.5x on transcendental kernels. Only effective before the process's first compilation.
        features = binding.get_host_cpu_features()
        if features.get("avx512f"):
            numba.config.CPU_NAME = binding.get_host_cpu_name()
            numba.config.CPU_FEATURES = features.flatten() + ",-prefer-256-bit"
    _numba = numba
    from mindtorch.engine.host import fastmath

    _space = fastmath.build(numba)
    return True


def _compile(source: Callable[..., Any], flavour: str, fastmath: set[str], helpers: tuple[Any, ...]) -> Any:
    """The numba dispatcher for ``source`` in flavour ``serial`` or ``parallel``."""
    names = dict(source.__globals__)
    names.update(_space or {})
    names["prange"] = _numba.prange if flavour == "parallel" else range
    for helper in helpers:
        twin = types.FunctionType(helper.__code__, names, helper.__name__, helper.__defaults__)
        names[helper.__name__] = _numba.njit(forceinline=True, fastmath=fastmath, error_model="numpy")(twin)
    if helpers:
        names["body"] = names[helpers[0].__name__]
    twin = types.FunctionType(source.__code__, names, source.__name__, source.__defaults__)
    # The disk cache tells kernels apart by qualified name, and looks for changes in the source's file alone: sources
    # shared by several helpers need a name each, and helpers of other files a part in it.
    codes = [(helper.__code__.co_code, helper.__code__.co_consts, helper.__code__.co_names) for helper in helpers]
    mark = [f"{zlib.crc32(repr(codes).encode()):x}"] if codes else []
    twin.__qualname__ = "_".join([source.__qualname__, *(helper.__name__ for helper in helpers), *mark])
    twin.__module__ = source.__module__
    options = {"fastmath": fastmath, "nogil": True, "error_model": "numpy", "parallel": flavour == "parallel"}
    folder = _cache_dir(flavour)
    if folder is None:
        return _numba.njit(**options)(twin)
    previous = _numba.config.CACHE_DIR
    _numba.config.CACHE_DIR = folder
    try:
        return _numba.njit(cache=True, **options)(twin)
    finally:
        _numba.config.CACHE_DIR = previous


class _Heard:
    """A compiled body that says it runs. Only while somebody listens: see `hear`."""

    __slots__ = ("body", "name")

    def __init__(self, name: str, body: Any) -> None:
        self.name, self.body = f"numba {name.strip('_')}", body

    def __call__(self, *args: Any) -> Any:
        known, began = len(getattr(self.body, "overloads", ())), perf_counter_ns()
        out = self.body(*args)
        compiled = len(getattr(self.body, "overloads", ())) > known
        used.say(self.name, perf_counter_ns() - began if compiled else 0)
        return out


def hear(on: bool) -> None:
    """Let compiled kernels tell ``engine.used`` that they run, or (False) put the bare ones back."""
    with _lock:
        for kernel in _registry:
            for slot in ("compiled", "wide"):
                fn = getattr(kernel, slot)
                if fn is not None and (fn.__class__ is _Heard) is not on:
                    setattr(kernel, slot, _Heard(kernel.__name__, fn) if on else fn.body)


class Fused:
    # Two bodies; parallel kernels take the thread count as LAST argument. (A docstring would clash with the slot.)

    __slots__ = (
        "__doc__",
        "__name__",
        "compiled",
        "fallback",
        "fastmath",
        "helpers",
        "parallel",
        "seen",
        "source",
        "weight",
        "wide",
    )

    def __init__(
        self,
        source: Callable[..., Any],
        fallback: Callable[..., Any],
        parallel: bool,
        fastmath: set[str],
        helpers: tuple[Any, ...],
        weight: int = 1,
    ) -> None:
        self.__name__, self.__doc__ = source.__name__, source.__doc__
        self.source, self.fallback, self.parallel = source, fallback, parallel
        self.fastmath, self.helpers, self.weight = fastmath, helpers, weight
        self.seen = 0
        self.compiled: Any = None
        self.wide: Any = None
        _registry.append(self)

    def __call__(self, *args: Any) -> Any:
        fn = self.compiled
        if fn is None:
            return self._cold(args)
        if self.parallel and args[-1] > 1:
            return self._call_wide(args)
        return fn(*args)

    def _built(self, flavour: str) -> Any:
        fn = _compile(self.source, flavour, self.fastmath, self.helpers)
        return _Heard(self.__name__, fn) if used.LISTENERS else fn

    def _call_wide(self, args: tuple[Any, ...]) -> Any:
        if self.wide is None:
            with _lock:
                self.wide = self._built("parallel")
        global _serialise
        if not _serialise:
            result = self._guard(self.wide, args)
            # The workqueue layer aborts the process when two Python threads enter it together.
            _serialise = _numba.threading_layer() == "workqueue"
            return result
        with _lock:
            return self._guard(self.wide, args)

    def _guard(self, fn: Any, args: tuple[Any, ...]) -> Any:
        """Run a compiled body; a failed COMPILATION (never the user's error) moves this kernel to its fallback."""
        try:
            return fn(*args)
        except (_numba.core.errors.NumbaError, OSError, RuntimeError, ImportError) as error:
            log.logger().log(logging.INFO, "kernel %s does not compile (%s): NumPy is used", self.__name__, error)
            self._give_up()
            return self.fallback(*args)

    def tick(self, work: int) -> bool:
        """Count ``work`` elements; True when the compiled body is to be used from now on.

        For callers whose NumPy path needs no output buffer: ``if k.compiled is None and not k.tick(n): numpy path``.
        """
        global _work
        if self.fallback is self.source or _off:
            return False
        work += CALL_WORK
        self.seen += work
        _work += work
        if not _eager and (_work < LOAD_WORK or self.seen < KERNEL_WORK):
            return False
        with _lock:
            began = perf_counter_ns() if used.LISTENERS else 0
            if self.compiled is None and _load():
                self.compiled = self._built("serial")
            if began:
                used.say("", perf_counter_ns() - began)
        return self.compiled is not None

    def _cold(self, args: tuple[Any, ...]) -> Any:
        if not self.tick(self.weight * max((a.size for a in args if isinstance(a, np.ndarray)), default=1)):
            return self.fallback(*args)
        if self.parallel and args[-1] > 1:
            return self._call_wide(args)
        return self._guard(self.compiled, args)

    def _give_up(self) -> None:
        self.compiled = self.wide = None
        self.source = self.fallback


def fused(
    fallback: Callable[..., Any],
    parallel: bool = False,
    *,
    reduction: bool = False,
    helpers: tuple[Any, ...] = (),
    exact: bool = False,
    weight: int = 1,
) -> Callable[[Callable[..., Any]], Fused]:
    """Decorator: nopython source plus its NumPy twin of the same signature.

    ``parallel``: the source loops with ``prange`` and its last parameter is the thread count (1: a serial build).
    ``reduction``: sums may be reordered for vectorisation. ``helpers``: plain functions inlined into the source
    (the first is also named ``body``).
    In the source ``prange``, ``exp32``, ``erf32``, ``log1p32``, ``F`` (see fastmath.py) are predefined.
    """
    flags = set() if exact else {"contract", "reassoc", "nsz"} if reduction else {"contract"}

    def wrap(source: Callable[..., Any]) -> Fused:
        return Fused(source, fallback, parallel, flags, helpers, weight)

    return wrap
