# ruff: noqa: F401
"""The names of ``torch.distributed`` in the module where PyTorch keeps them."""

from __future__ import annotations

from .channel import DistBackendError, DistNetworkError
from .collectives import (
    P2POp,
    all_gather,
    all_gather_coalesced,
    all_gather_into_tensor,
    all_gather_single,
    all_reduce,
    all_reduce_coalesced,
    all_to_all,
    all_to_all_single,
    barrier,
    batch_isend_irecv,
    broadcast,
    gather,
    irecv,
    isend,
    monitored_barrier,
    recv,
    reduce,
    reduce_scatter,
    reduce_scatter_single,
    reduce_scatter_tensor,
    scatter,
    send,
)
from .group import ProcessGroup
from .objects import (
    all_gather_object,
    broadcast_object_list,
    gather_object,
    recv_object_list,
    scatter_object_list,
    send_object_list,
)
from .reduction import ReduceOp
from .rendezvous import register_rendezvous_handler, rendezvous
from .store import DistError, DistStoreError, FileStore, HashStore, PrefixStore, Store, TCPStore
from .work import Work
from .world import (
    Backend,
    GroupMember,
    default_pg_timeout,
    destroy_process_group,
    get_backend,
    get_backend_config,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_pg_count,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    is_available,
    is_initialized,
    new_group,
    new_subgroups,
    new_subgroups_by_enumeration,
)
from .world import default as _get_default_group


def is_gloo_available() -> bool:
    """True: the name is accepted, and means MindSpore's communication."""
    return True


def is_nccl_available() -> bool:
    """False: there is no NVIDIA library here; the backend name "nccl" is accepted all the same."""
    return False


def is_mpi_available() -> bool:
    """False."""
    return False


def is_ucc_available() -> bool:
    """False."""
    return False


def is_xccl_available() -> bool:
    """False."""
    return False


def is_backend_available(backend: str) -> bool:
    """Whether the library of that name is what communicates: gloo's place is taken, mccl is MindSpore's own."""
    return backend.lower() in ("gloo", "mccl")


def is_torchelastic_launched() -> bool:
    """Whether ``python -m mindtorch launch`` (or torchrun) started this process."""
    import os

    return "TORCHELASTIC_RUN_ID" in os.environ


def get_default_backend_for_device(device: object) -> str:
    """The name to give to ``init_process_group`` for tensors of the device."""
    return "hccl" if str(device).startswith(("npu", "Ascend", "cuda")) else "gloo"


def supports_complex(reduceOp: object) -> bool:  # noqa: N803 - public argument
    """Whether the operation reduces complex tensors."""
    return reduceOp in (ReduceOp.SUM, ReduceOp.AVG)
