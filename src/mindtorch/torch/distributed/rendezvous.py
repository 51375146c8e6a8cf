"""How processes find each other: ``env://``, ``tcp://host:port`` and ``file:///path`` give a store, a rank and a size."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlparse

from .store import FileStore, HashStore, Store, TCPStore

__all__ = ["register_rendezvous_handler", "rendezvous"]

_served: dict[tuple[str, int], TCPStore] = {}
"""Stores of this process by address: a job that starts a second time meets in the first one's."""
_handlers: dict[str, Callable[..., Iterator[tuple[Store, int, int]]]] = {}


def register_rendezvous_handler(scheme: str, handler: Callable[..., Iterator[tuple[Store, int, int]]]) -> None:
    """Let ``scheme://`` URLs be answered by ``handler(url)``, which yields (store, rank, world_size)."""
    if scheme in _handlers or scheme in ("env", "tcp", "file"):
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    _handlers[scheme] = handler


def rendezvous(url: str, rank: int = -1, world_size: int = -1, timeout: timedelta = timedelta(seconds=300), **kw: Any) -> Any:
    """Yield (store, rank, world_size). ValueError for what the URL and the environment do not say."""
    yield meet(url, rank, world_size, timeout)


def meet(url: str, rank: int, size: int, timeout: timedelta) -> tuple[Store, int, int]:
    """The store, rank and size behind ``url``."""
    parts = urlparse(url)
    scheme = parts.scheme
    query = {k: v[0] for k, v in parse_qs(parts.query).items()}
    rank = int(query.get("rank", rank))
    size = int(query.get("world_size", size))
    if scheme in _handlers:
        return next(iter(_handlers[scheme](url)))
    if scheme == "env":
        return _env(rank, size, timeout)
    if scheme not in ("tcp", "file"):
        raise RuntimeError(f"No rendezvous handler for {scheme}://; use env://, tcp://HOST:PORT or file:///PATH")
    for value, what in ((size, "world size"), (rank, "rank")):
        if value < 0:
            raise ValueError(f"Error initializing torch.distributed using {scheme}:// rendezvous: {what} parameter missing")
    if scheme == "file":
        path = parts.netloc + parts.path
        if not path:
            raise ValueError("Error initializing torch.distributed using file:// rendezvous: path missing")
        return FileStore(path, size), rank, size
    if not parts.port:
        raise ValueError("Error initializing torch.distributed using tcp:// rendezvous: port number missing")
    return tcp(parts.hostname or "127.0.0.1", parts.port, rank, size, timeout), rank, size


def _env(rank: int, size: int, timeout: timedelta) -> tuple[Store, int, int]:
    def need(name: str) -> str:
        value = os.environ.get(name)
        if not value:
            raise ValueError(
                f"Error initializing torch.distributed using env:// rendezvous: environment variable {name} expected, but not "
                "set; start the program with `python -m mindtorch launch`, or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT"
            )
        return value

    rank = int(need("RANK")) if rank < 0 else rank
    size = int(need("WORLD_SIZE")) if size < 0 else size
    host, port = need("MASTER_ADDR"), int(need("MASTER_PORT"))
    return tcp(host, port, rank, size, timeout), rank, size


def tcp(host: str, port: int, rank: int, size: int, timeout: timedelta) -> Store:
    """The store at ``host:port``, served by rank 0. One process needs no server."""
    if size == 1:
        return HashStore()
    key = (host, port)
    if key not in _served:
        _served[key] = TCPStore(host, port, size, rank == 0, timeout, wait_for_workers=False)
    return _served[key]


def address(store: Store) -> str:
    """An address of this machine the other processes can reach: for rank 0, where MindSpore's store will be."""
    hosts = [store.host] if isinstance(store, TCPStore) else [socket.gethostname()]
    for host in [*hosts, "127.0.0.1"]:
        try:
            ip = socket.gethostbyname(host)
            with socket.socket() as s:
                s.bind((ip, 0))
            return ip
        except OSError:
            continue
    return "127.0.0.1"


def free_port() -> int:
    """A TCP port nobody listens at."""
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("", 0))
        return s.getsockname()[1]
