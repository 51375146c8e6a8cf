"""Settings that decide how fast mindtorch is, for ``python -m mindtorch env``, and warnings about bad ones."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def warnings(env: Mapping[str, str], count: int) -> list[str]:
    """What is set badly, and what to do, on a machine of ``count`` cores."""
    found = []
    isa = env.get("ONEDNN_MAX_CPU_ISA", "")
    if isa and "AVX512" in isa.upper():
        found.append(f"ONEDNN_MAX_CPU_ISA={isa}: MindSpore 2.9 and 2.10 convolve 70 times slower with AVX-512; unset it (mindtorch asks for AVX2)")
    for name in THREADS:
        value = env.get(name, "")
        if value.isdigit() and int(value) > count:
            found.append(f"{name}={value}: more threads than the {count} cores here take turns; set it to {count} or less")
        elif value and not value.isdigit():
            found.append(f"{name}={value}: not a number, libraries ignore it or fail")
    if env.get("MS_ENABLE_RUNTIME_PROFILER") == "1":
        found.append("MS_ENABLE_RUNTIME_PROFILER=1: MindSpore records every kernel; unset it after profiling")
    if env.get("MINDTORCH_KERNELS", "auto") == "mindspore":
        found.append("MINDTORCH_KERNELS=mindspore: small eager ops take 20 to 130 us each; unset it for the faster kernel of both")
    if env.get("MINDTORCH_NPU_SIM") == "1":
        found.append("MINDTORCH_NPU_SIM=1: the accelerator path runs on the CPU, which is for tests")
    level = env.get("MSA_LOG", "")
    if level and level not in ("0", "1", "2", "3", "4"):
        found.append(f"MSA_LOG={level}: must be 0 to 4")
    return found


def versions() -> list[str]:
    """Versions of everything involved, and mindtorch's own settings, one a line."""
    from importlib import metadata

    import mindtorch
    from mindtorch.cli import switch

    out = [
        f"mindtorch    {mindtorch.__version__} ({os.path.dirname(os.path.abspath(mindtorch.__file__))})",
        f"behaves as   torch {switch.VERSIONS['torch']}",
        f"python       {platform.python_version()} ({sys.executable})",
        f"platform     {platform.platform()}, {os.cpu_count()} cpus",
    ]
    for name in ("mindspore", "numpy", "ml_dtypes", "numba", "scipy", "pillow", "torch", "torchvision"):
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            version = "not installed"
        out.append(f"{name:12} {version}")
    return out + [f"{name}={os.environ[name]}" for name in sorted(k for k in os.environ if k.startswith(("MINDTORCH_", "MSA_")))]


def lines() -> list[str]:
    """Launch mode, oneDNN, BLAS, threads, devices and warnings, one a line."""
    found = warnings(os.environ, cores())
    if any(w.startswith("MSA_LOG=") for w in found):  # importing would refuse it, and nothing could be shown
        os.environ["MSA_LOG"] = "2"
    import threadpoolctl

    import mindtorch.torch as torch  # loads NumPy's BLAS, which is asked below

    devices = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    out = [
        f"devices      {', '.join(['cpu', *devices])}",
        f"kernels      {os.environ.get('MINDTORCH_KERNELS', 'auto')}",
        "launch mode  blocking (mindtorch sets it when MindSpore loads)",
        f"oneDNN ISA   {os.environ.get('ONEDNN_MAX_CPU_ISA', 'AVX2 (mindtorch sets it while MindSpore loads)')}",
        f"threads      {torch.get_num_threads()} of {cores()} cores",
    ]
    for pool in threadpoolctl.threadpool_info():
        name = f"{pool['internal_api']} {pool.get('version') or ''}".strip()
        out.append(f"{pool['user_api']:12} {name}, {pool['num_threads']} threads ({os.path.basename(pool['filepath'])})")
    shown = sorted(k for k in os.environ if k in THREADS or k.startswith(("ONEDNN_", "MS_")))
    out += [f"{k}={os.environ[k]}" for k in shown]
    return out + [f"warning: {w}" for w in found]
