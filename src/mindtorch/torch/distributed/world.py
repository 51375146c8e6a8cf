"""The job: starting it, its groups, who is who in them, and ending it."""

from __future__ import annotations

import contextlib
import hashlib
import os
from datetime import timedelta
from typing import Any

import numpy as np

from mindtorch.log import ignored

from .channel import Channel
from .group import ProcessGroup
from .rendezvous import address, free_port, meet
from .store import FileStore, HashStore, PrefixStore, Store, TCPStore

default_pg_timeout = timedelta(minutes=30)
_MISSING = "Default process group has not been initialized, please make sure to call init_process_group."


class Backend(str):
    """A backend's name in lower case. All of them mean MindSpore's communication: on the CPU its own library, mccl."""

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    UCC = "ucc"
    MPI = "mpi"
    XCCL = "xccl"
    HCCL = "hccl"
    MCCL = "mccl"
    FAKE = "fake"
    backend_list = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, HCCL, MCCL]

    def __new__(cls, name: str) -> Backend:
        """ValueError when ``name`` is no string."""
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish: {name!r}")
        return super().__new__(cls, name.lower())


class GroupMember:
    """Sentinels: the whole job, and the answer of ``new_group`` to those who are not in it."""

    WORLD: ProcessGroup | None = None
    NON_GROUP_MEMBER = -100


class _GroupMeta(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:  # noqa: N802 - public name
        """The group of all processes; None before ``init_process_group``."""
        return GroupMember.WORLD

    @WORLD.setter
    def WORLD(cls, pg: ProcessGroup | None) -> None:  # noqa: N802 - public name
        GroupMember.WORLD = pg


class group(metaclass=_GroupMeta):  # noqa: N801 - public name
    """``group.WORLD`` is the group of all processes."""


class _World:
    """What this process knows of the job."""

    channel: Channel | None = None
    store: Store | None = None
    starts = 0
    made = 0
    groups: list[ProcessGroup] = []


def _known(backend: str | None) -> str:
    """The backend's name to report. ValueError for one nobody knows."""
    if backend is None:
        return Backend.GLOO
    parts = [p.partition(":")[2] or p for p in str(backend).lower().split(",")]
    for p in parts:
        if p not in Backend.backend_list:
            raise ValueError(
                f"Unknown backend {backend!r}: gloo, nccl, hccl and mccl are accepted and all mean MindSpore's communication"
            )
    return str(backend).lower() if ":" not in str(backend) else parts[0]


def is_available() -> bool:
    """True: the package is here. One process needs nothing else, several need MindSpore."""
    return True


def is_initialized() -> bool:
    """Whether ``init_process_group`` was called and the job has not ended."""
    return GroupMember.WORLD is not None


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Join the job; returns when all ``world_size`` processes have.

    ``init_method`` is ``env://`` (the default: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT), ``tcp://host:port`` or ``file:///path``;
    or give a ``store``. ``backend`` is any of gloo, nccl, hccl, mccl. ``timeout`` bounds every wait for another process.
    ValueError for a second start or missing values, RuntimeError when the processes do not meet.
    """
    if is_initialized():
        raise ValueError("trying to initialize the default process group twice!")
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    name = _known(backend)
    if pg_options is not None:
        ignored("init_process_group", "pg_options", "MindSpore's communication has no such options on the CPU")
    if device_id is not None:
        ignored("init_process_group", "device_id", "a process has one device here")
    limit = timeout or default_pg_timeout
    channel = None
    if store is None and init_method in (None, "env://") and _of_msrun():
        channel = _msrun(limit)
        store, rank, world_size = channel.store, channel.rank, channel.size
    elif store is None:
        store, rank, world_size = meet(init_method or "env://", rank, world_size, limit)
    elif rank < 0 or world_size < 1:
        raise AssertionError("rank and world_size must be given, and not be negative, if a store is given")
    if not 0 <= rank < world_size:
        raise ValueError(f"init_process_group: rank {rank} is out of range for world_size {world_size}")
    _World.starts += 1
    _World.store = store
    channel = channel or _channel(PrefixStore(f"start{_World.starts}", store), rank, world_size, limit)
    channel.timeout = limit.total_seconds()
    _World.channel = channel
    _World.made = 0
    pg = ProcessGroup(channel, list(range(world_size)), f"{group_name or 'default_pg'}:{_World.starts}", name, "default_pg")
    if world_size > 1:
        channel.run(pg.barrier)
    _World.groups = [pg]
    GroupMember.WORLD = pg


def _channel(store: Store, rank: int, size: int, limit: timedelta) -> Channel:
    """A channel to the others; the one of an earlier start, if there was one: MindSpore can join a job only once."""
    if size == 1:
        return Channel(None, store, rank, size)
    old = _kept.get("channel")
    if old is not None:
        if (old.rank, old.size) != (rank, size):
            raise RuntimeError(
                f"init_process_group: this process was rank {old.rank} of {old.size} before, and MindSpore can join only one job; "
                "start a new process for another one"
            )
        old.store = store
        return old
    from mindtorch.engine.mindspore.collectives import Wire

    if rank == 0:
        store.set("wire", f"{address(_World.store or store)} {free_port()}")
    store.wait(["wire"], limit)
    host, port = store.get("wire").decode().split()
    channel = Channel(Wire(host, int(port), rank, size, limit.total_seconds()), store, rank, size)
    channel.introduce()
    _kept["channel"] = channel
    return channel


def _of_msrun() -> bool:
    """Whether msrun started this process: by itself, or for ``launch --msrun``, which sets RANK as well."""
    return "MS_ROLE" in os.environ and ("RANK" not in os.environ or os.environ.get("MINDTORCH_JOB") == "msrun")


def _msrun(limit: timedelta) -> Channel:
    """A channel in a job started by MindSpore's msrun. Its scheduler runs the program too, and ends here."""
    from mindtorch.engine.mindspore import collectives

    if os.environ["MS_ROLE"] == "MS_SCHED":
        collectives.schedule()
        raise SystemExit(0)
    if "channel" in _kept:
        return _kept["channel"]
    wire = collectives.Wire("", 0, -1, -1, limit.total_seconds())
    if int(os.environ.get("RANK", wire.rank)) != wire.rank:
        raise RuntimeError(f"init_process_group: RANK is {os.environ['RANK']}, and msrun's scheduler says {wire.rank}")
    place = np.zeros(256, np.uint8)
    master: Store | None = None
    if wire.rank == 0:
        served = TCPStore("127.0.0.1", 0, wire.size, True, limit, wait_for_workers=False)
        text = f"{address(served) if _local() else address(HashStore())} {served.port}".encode()
        place[: len(text)] = np.frombuffer(text, np.uint8)
        master = served
    wire.broadcast(place, 0, wire.rank, wire.world)
    host, port = bytes(place).rstrip(b"\0").decode().split()
    store = master or TCPStore(host, int(port), wire.size, False, limit)
    channel = _kept["channel"] = Channel(wire, store, wire.rank, wire.size)
    channel.introduce()
    return channel


def _local() -> bool:
    """Whether msrun's scheduler is on this machine alone."""
    return os.environ.get("MS_SCHED_HOST", "127.0.0.1") in ("127.0.0.1", "localhost")


_kept: dict[str, Channel] = {}


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """End the job, or forget one of its groups. AssertionError when there is none."""
    if group == GroupMember.NON_GROUP_MEMBER:
        return
    pg = GroupMember.WORLD if group is None else group
    if pg is None:
        raise AssertionError("Process group cannot be None")
    pg.channel.run(lambda: None)
    if pg is not GroupMember.WORLD:
        if pg not in _World.groups:
            raise ValueError("Invalid process group specified")
        _World.groups.remove(pg)
        return
    store = _World.store
    if isinstance(store, FileStore) and store.add("store/left", 1) >= pg.size():
        with contextlib.suppress(OSError):
            os.remove(store.path)
    GroupMember.WORLD = None
    _World.groups = []
    _World.channel = None
    _World.store = None


def default() -> ProcessGroup:
    """The group of all. ValueError before ``init_process_group``."""
    if GroupMember.WORLD is None:
        raise ValueError(_MISSING)
    return GroupMember.WORLD


def resolve(pg: Any) -> ProcessGroup | None:
    """The group an argument names; None where this process is not in it."""
    if pg is None:
        return default()
    if isinstance(pg, int):
        return None
    if not isinstance(pg, ProcessGroup):
        raise TypeError(f"group must be a ProcessGroup made by new_group, got {type(pg).__name__}")
    if pg not in _World.groups:
        raise ValueError("Invalid process group specified")
    return pg


def get_rank(group: Any = None) -> int:
    """This process's number in the group; -1 if it is not in it."""
    pg = resolve(group)
    return -1 if pg is None else pg.rank()


def get_world_size(group: Any = None) -> int:
    """How many processes the group has; -1 if this one is not in it."""
    pg = resolve(group)
    return -1 if pg is None else pg.size()


def get_backend(group: Any = None) -> Backend:
    """The name given to ``init_process_group`` or ``new_group``."""
    pg = resolve(group)
    if pg is None:
        raise ValueError("Invalid process group specified")
    return Backend(pg.backend)


def get_backend_config(group: Any = None) -> str:
    """The backend of each device type."""
    name = get_backend(group)
    return f"cpu:{name},cuda:{name}"


def get_process_group_ranks(group: Any) -> list[int]:
    """The members' ranks in the job."""
    pg = resolve(group)
    return [] if pg is None else list(pg.ranks)


def get_global_rank(group: Any, group_rank: int) -> int:
    """The rank in the job of the member ``group_rank``. ValueError when there is none."""
    pg = resolve(group)
    if pg is GroupMember.WORLD:
        return group_rank
    if pg is None or not 0 <= group_rank < pg.size():
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return pg.ranks[group_rank]


def get_group_rank(group: Any, global_rank: int) -> int:
    """The number in the group of a rank of the job. ValueError when it is not in it."""
    pg = resolve(group)
    if pg is GroupMember.WORLD:
        return global_rank
    if pg is None or global_rank not in pg.ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return pg.ranks.index(global_rank)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """LOCAL_RANK, or ``fallback_rank``. RuntimeError when neither is there."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError("LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow this to work outside a launcher")


def get_pg_count() -> int:
    """How many groups there are."""
    return len(_World.groups)


def new_group(
    ranks: list[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
) -> Any:
    """A group of ``ranks`` (all by default). Every process of the job calls this, in the same order, member or not.

    ``GroupMember.NON_GROUP_MEMBER`` for those not in it. With ``use_local_synchronization`` only members call it.
    ValueError for ranks that do not exist or come twice.
    """
    world = default()
    chosen = list(world.ranks) if ranks is None else sorted(int(r) for r in ranks)
    n = world.size()
    for r in chosen:
        if not 0 <= r < n:
            raise ValueError(f"Rank {r} is out of range. Valid ranks are 0 to {n - 1} (world_size={n})")
    if len(set(chosen)) != len(chosen):
        raise ValueError(f"new_group: ranks come twice in {chosen}")
    if pg_options is not None:
        ignored("new_group", "pg_options", "MindSpore's communication has no such options on the CPU")
    if timeout is not None and timeout.total_seconds() != world.channel.timeout:
        ignored("new_group", "timeout", "the timeout of init_process_group holds for all groups")
    if use_local_synchronization:
        digest = hashlib.blake2b(repr(chosen).encode(), digest_size=6).hexdigest()
        same = sum(g.ranks == chosen for g in _World.groups)
        name = f"local-{digest}-{same}"
    else:
        _World.made += 1
        name = f"{_World.made}"
    if world.channel.rank not in chosen:
        return GroupMember.NON_GROUP_MEMBER
    pg = ProcessGroup(world.channel, chosen, f"{name}:{_World.starts}", _known(backend or world.backend), group_desc or "")
    _World.groups.append(pg)
    return pg


def new_subgroups(
    group_size: int | None = None,
    group: Any = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups of ``group_size`` consecutive ranks: (this process's, all). ValueError when the size does not divide."""
    size = get_world_size()
    if group_size is None:
        group_size = int(os.environ.get("LOCAL_WORLD_SIZE", size))
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    if size < group_size or size % group_size:
        raise ValueError(f"The world size ({size}) must be divisible by 'group_size={group_size}'")
    lists = [list(range(i, i + group_size)) for i in range(0, size, group_size)]
    return new_subgroups_by_enumeration(lists, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: list[list[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """The groups listed: (this process's or None, all). ValueError when a rank is in two of them."""
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    seen = [r for ranks in ranks_per_subgroup_list for r in ranks]
    if len(set(seen)) != len(seen):
        raise ValueError("new_subgroups_by_enumeration: a rank has appeared in more than one subgroup")
    mine = None
    made = []
    for ranks in ranks_per_subgroup_list:
        pg = new_group(ranks, timeout, backend, pg_options, group_desc=group_desc)
        made.append(pg)
        if get_rank() in ranks:
            mine = pg
    return mine, made
