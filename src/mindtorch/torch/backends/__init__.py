"""``torch.backends``: which libraries stand behind, and switches that programs set. The switches are kept; there is no
library here whose work they would change."""

from __future__ import annotations

from mindtorch.torch.backends._flags import Flags

__all__ = [
    "cpu", "cuda", "cudnn", "cusparselt", "mha", "mkl", "mkldnn", "mps", "nnpack", "openmp", "opt_einsum", "quantized",
]  # fmt: skip

cudnn = Flags(
    "cudnn",
    values={
        "enabled": True, "benchmark": False, "benchmark_limit": 10, "deterministic": False, "allow_tf32": True,
        "fp32_precision": "none",
    },
    functions={"is_available": False, "version": None, "is_acceptable": False},
)  # fmt: skip
cudnn.conv = Flags("cudnn.conv", values={"fp32_precision": "none"})
cudnn.rnn = Flags("cudnn.rnn", values={"fp32_precision": "none"})
cuda = Flags(
    "cuda",
    functions={
        "is_built": False, "flash_sdp_enabled": True, "mem_efficient_sdp_enabled": True, "math_sdp_enabled": True,
        "cudnn_sdp_enabled": True, "is_flash_attention_available": False, "can_use_flash_attention": False,
        "can_use_efficient_attention": False, "can_use_cudnn_attention": False,
        "fp16_bf16_reduction_math_sdp_allowed": False,
    },
    switches={
        "enable_flash_sdp": "flash_sdp_enabled", "enable_mem_efficient_sdp": "mem_efficient_sdp_enabled",
        "enable_math_sdp": "math_sdp_enabled", "enable_cudnn_sdp": "cudnn_sdp_enabled",
        "allow_fp16_bf16_reduction_math_sdp": "fp16_bf16_reduction_math_sdp_allowed",
        "preferred_linalg_library": "_linalg", "preferred_blas_library": "_blas",
    },
)  # fmt: skip
cuda.matmul = Flags(
    "cuda.matmul",
    values={
        "allow_tf32": False, "allow_fp16_reduced_precision_reduction": True,
        "allow_bf16_reduced_precision_reduction": True, "allow_fp16_accumulation": False, "fp32_precision": "none",
    },
)  # fmt: skip
cuda.cufft_plan_cache = Flags("cuda.cufft_plan_cache", values={"size": 0, "max_size": 0})
mps = Flags(
    "mps",
    functions={
        "is_available": False, "is_built": False, "is_macos13_or_newer": False, "is_macos_or_newer": False,
    },
)  # fmt: skip
mkl = Flags("mkl", functions={"is_available": False})
mkldnn = Flags(
    "mkldnn",
    values={"enabled": True, "deterministic": False, "allow_tf32": True, "fp32_precision": "none"},
    functions={"is_available": False},
)
openmp = Flags("openmp", functions={"is_available": True})
nnpack = Flags("nnpack", functions={"is_available": False}, values={"enabled": False})
mha = Flags("mha", functions={"get_fastpath_enabled": True}, switches={"set_fastpath_enabled": "get_fastpath_enabled"})
opt_einsum = Flags("opt_einsum", values={"enabled": True, "strategy": "auto"}, functions={"is_available": False})
quantized = Flags("quantized", values={"engine": "none", "supported_engines": ["none"]})
cusparselt = Flags("cusparselt", functions={"is_available": False, "version": None})
xnnpack = Flags("xnnpack", values={"enabled": False})
cpu = Flags("cpu", functions={"get_cpu_capability": "DEFAULT"})
fp32_precision = "none"
