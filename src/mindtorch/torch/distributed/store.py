"""Key-value stores processes find each other through. They carry addresses and small messages, never tensors.

``TCPStore`` is a thread in the process that serves and a socket in each that asks. Keys and values are bytes; one request is one
line of lengths and the parts behind it.
"""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
import time
from datetime import timedelta
from typing import Any

__all__ = ["FileStore", "HashStore", "PrefixStore", "Store", "TCPStore"]

_DEFAULT = timedelta(seconds=300)


class DistError(RuntimeError):
    """Something went wrong between processes."""


class DistStoreError(DistError):
    """A store cannot be reached, or a key did not appear in time."""


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


class _Table:
    """The dictionary behind every store, with a lock and a bell that rings on every change."""

    def __init__(self) -> None:
        self.d: dict[str, bytes] = {}
        self.bell = threading.Condition()

    def call(self, command: str, keys: list[str], values: list[bytes], wait: float) -> Any:
        """Do one command. ``wait`` is for "wait" only: how long, in seconds, for all keys."""
        with self.bell:
            d = self.d
            if command == "wait":
                return self.bell.wait_for(lambda: all(k in d for k in keys), wait)
            if command == "get":
                return [d.get(k) for k in keys]
            if command == "check":
                return all(k in d for k in keys)
            if command == "count":
                return len(d)
            if command == "keys":
                return list(d)
            result: Any = None
            if command == "set":
                d.update(zip(keys, values))
            elif command == "add":
                result = int(d.get(keys[0], b"0")) + int(values[0])
                d[keys[0]] = str(result).encode()
            elif command == "append":
                d[keys[0]] = d.get(keys[0], b"") + values[0]
            elif command == "swap":
                result = self._swap(keys[0], values[0], values[1])
            elif command == "delete":
                result = d.pop(keys[0], None) is not None
            else:
                raise ValueError(f"store: unknown command {command!r}")
            self.bell.notify_all()
            return result

    def _swap(self, key: str, expected: bytes, desired: bytes) -> bytes:
        old = self.d.get(key)
        if (old is None and not expected) or old == expected:
            self.d[key] = desired
            return desired
        return expected if old is None else old


class Store:
    """What all stores can do. Subclasses give ``_call``."""

    def __init__(self) -> None:
        self._timeout = _DEFAULT

    def _call(self, command: str, keys: list[str], values: list[bytes] = [], wait: float = 0.0) -> Any:  # noqa: B006
        raise NotImplementedError("Store: use TCPStore, FileStore or HashStore")

    def set(self, key: str, value: str | bytes) -> None:
        """Put ``value`` under ``key``."""
        self._call("set", [key], [_bytes(value)])

    def get(self, key: str) -> bytes:
        """The value, waiting for the key to appear. DistStoreError after the store's timeout."""
        self.wait([key])
        value = self._call("get", [key])[0]
        return b"" if value is None else value

    def add(self, key: str, amount: int) -> int:
        """Add to the counter under ``key`` (0 if it is new); its new value."""
        return self._call("add", [key], [str(int(amount)).encode()])

    def append(self, key: str, value: str | bytes) -> None:
        """Append to the value under ``key``."""
        self._call("append", [key], [_bytes(value)])

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        """Put ``desired_value`` if the value is ``expected_value`` (or "" and the key is new); the value it then has.

        For a key that does not exist and an expected value that is not empty, the expected value comes back.
        """
        return self._call("swap", [key], [_bytes(expected_value), _bytes(desired_value)])

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        """Block until all keys are there. DistStoreError after ``timeout`` (the store's by default)."""
        seconds = (timeout or self._timeout).total_seconds()
        end = time.monotonic() + seconds
        while True:
            left = max(0.0, end - time.monotonic())
            # short waits, so that a client's other threads get at the connection in between
            if self._call("wait", list(keys), wait=min(left, 0.2)):
                return
            if left <= 0:
                raise DistStoreError(f"wait timeout after {int(seconds * 1000)}ms, keys: {', '.join(keys)}")

    def check(self, keys: list[str]) -> bool:
        """Whether all keys are there."""
        return self._call("check", list(keys))

    def delete_key(self, key: str) -> bool:
        """Remove ``key``; whether it was there."""
        return self._call("delete", [key])

    def num_keys(self) -> int:
        """How many keys there are."""
        return self._call("count", [])

    def multi_get(self, keys: list[str]) -> list[bytes]:
        """The values of all keys, waiting for them."""
        self.wait(keys)
        return [b"" if v is None else v for v in self._call("get", list(keys))]

    def multi_set(self, keys: list[str], values: list[str]) -> None:
        """Put ``values[i]`` under ``keys[i]``."""
        self._call("set", list(keys), [_bytes(v) for v in values])

    def has_extended_api(self) -> bool:
        """True: append, multi_get and multi_set are there."""
        return True

    def list_keys(self) -> list[str]:
        """All keys."""
        return self._call("keys", [])

    def set_timeout(self, timeout: timedelta) -> None:
        """How long ``get`` and ``wait`` wait."""
        self._timeout = timeout

    @property
    def timeout(self) -> timedelta:
        """How long ``get`` and ``wait`` wait."""
        return self._timeout


class HashStore(Store):
    """A store within one process, for its threads."""

    def __init__(self) -> None:
        super().__init__()
        self._table = _Table()

    def _call(self, command: str, keys: list[str], values: list[bytes] = [], wait: float = 0.0) -> Any:  # noqa: B006
        return self._table.call(command, keys, values, wait)


class PrefixStore(Store):
    """Another store with ``prefix/`` before every key."""

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__()
        self._prefix = prefix
        self._store = store
        self._timeout = store.timeout

    def _call(self, command: str, keys: list[str], values: list[bytes] = [], wait: float = 0.0) -> Any:  # noqa: B006
        return self._store._call(command, [f"{self._prefix}/{k}" for k in keys], values, wait)

    @property
    def underlying_store(self) -> Store:
        """The store below."""
        return self._store


class FileStore(Store):
    """A store in a file that all processes see; ``world_size`` is only noted. The last to leave may delete the file."""

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self._path = file_name
        self._world_size = world_size
        self._guard = threading.Lock()

    @property
    def path(self) -> str:
        """The file."""
        return self._path

    def _call(self, command: str, keys: list[str], values: list[bytes] = [], wait: float = 0.0) -> Any:  # noqa: B006
        if command == "wait":
            end = time.monotonic() + wait
            while not self._locked("check", keys, values):
                if time.monotonic() >= end:
                    return False
                time.sleep(0.01)
            return True
        return self._locked(command, keys, values)

    def _locked(self, command: str, keys: list[str], values: list[bytes]) -> Any:
        """Read the file, do the command, write it back, all under the file's lock."""
        import fcntl

        with self._guard, open(self._path, "a+b") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            f.seek(0)
            raw = f.read()
            table = _Table()
            table.d = _unpack(raw)
            before = dict(table.d)
            result = table.call(command, keys, values, 0.0)
            if table.d != before:
                f.seek(0)
                f.truncate()
                f.write(_pack(table.d))
                f.flush()
            return result


def _pack(d: dict[str, bytes]) -> bytes:
    parts = []
    for k, v in d.items():
        key = k.encode()
        parts += [struct.pack("<II", len(key), len(v)), key, v]
    return b"".join(parts)


def _unpack(raw: bytes) -> dict[str, bytes]:
    d: dict[str, bytes] = {}
    at = 0
    while at + 8 <= len(raw):
        nk, nv = struct.unpack_from("<II", raw, at)
        at += 8
        d[raw[at : at + nk].decode()] = raw[at + nk : at + nk + nv]
        at += nk + nv
    return d


def _read(sock: socket.socket, n: int) -> bytes:
    parts = []
    while n:
        piece = sock.recv(n)
        if not piece:
            raise ConnectionError("the other end of the store's connection is gone")
        parts.append(piece)
        n -= len(piece)
    return b"".join(parts)


def _message(fields: list[bytes]) -> bytes:
    return struct.pack("<I", len(fields)) + b"".join(struct.pack("<I", len(f)) + f for f in fields)


def _fields(sock: socket.socket) -> list[bytes]:
    (n,) = struct.unpack("<I", _read(sock, 4))
    return [_read(sock, struct.unpack("<I", _read(sock, 4))[0]) for _ in range(n)]


class _Handler(socketserver.BaseRequestHandler):
    """One client: requests until it hangs up."""

    def handle(self) -> None:
        table = self.server.table
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while True:
                command, wait, nk, *rest = _fields(self.request)
                k = int(nk)
                keys = [f.decode() for f in rest[:k]]
                try:
                    reply = _reply(table.call(command.decode(), keys, rest[k:], float(wait)))
                except Exception as error:
                    reply = [b"error", str(error).encode()]
                self.request.sendall(_message(reply))
        except (ConnectionError, OSError, struct.error):
            return


def _reply(value: Any) -> list[bytes]:
    """A result as fields: what kind it is, then the parts."""
    if value is None:
        return [b"none"]
    if isinstance(value, bool):
        return [b"bool", b"1" if value else b"0"]
    if isinstance(value, int):
        return [b"int", str(value).encode()]
    if isinstance(value, bytes):
        return [b"bytes", value]
    if value and all(isinstance(v, str) for v in value):
        return [b"names", *(v.encode() for v in value)]
    return [b"list", *(b"0" if v is None else b"1" + v for v in value)]


def _value(fields: list[bytes]) -> Any:
    kind, *rest = fields
    if kind == b"error":
        raise DistStoreError(rest[0].decode())
    if kind == b"none":
        return None
    if kind == b"bool":
        return rest[0] == b"1"
    if kind == b"int":
        return int(rest[0])
    if kind == b"bytes":
        return rest[0]
    if kind == b"names":
        return [f.decode() for f in rest]
    return [None if f == b"0" else f[1:] for f in rest]


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 512
    table: _Table


class TCPStore(Store):
    """A store that the process with ``is_master=True`` serves at ``host_name:port`` (port 0: a free one).

    ``wait_for_workers`` makes the constructor of the master return when ``world_size`` processes, itself included, have joined.
    DistStoreError when the server cannot be reached, or they do not come, within ``timeout``.
    """

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = _DEFAULT,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        super().__init__()
        self._timeout = timeout
        self._host = host_name
        self._guard = threading.Lock()
        self._server: _Server | None = None
        if master_listen_fd is not None:
            raise ValueError("TCPStore: master_listen_fd is not supported; give a port, or 0 for a free one")
        if is_master:
            port = self._serve(port, multi_tenant)
        self._port = port
        self._socket = self._connect()
        joined = self.add("store/joined", 1)
        if is_master and wait_for_workers and world_size:
            end = time.monotonic() + timeout.total_seconds()
            while (joined := self.add("store/joined", 0)) < world_size:
                if time.monotonic() > end:
                    raise DistStoreError(f"Timed out waiting for clients: {joined}/{world_size} clients joined")
                time.sleep(0.02)

    def _serve(self, port: int, multi_tenant: bool) -> int:
        try:
            server = _Server(("", port), _Handler)
        except OSError as error:
            if multi_tenant:
                return port
            raise RuntimeError(
                f"The server socket has failed to listen on any local network address. port: {port}, {error}"
            ) from error
        server.table = _Table()
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.5}, daemon=True).start()
        self._server = server
        return server.server_address[1]

    def _connect(self) -> socket.socket:
        end = time.monotonic() + self._timeout.total_seconds()
        while True:
            try:
                sock = socket.create_connection((self._host, self._port), timeout=5)
                break
            except OSError as error:
                if time.monotonic() >= end:
                    raise DistStoreError(
                        f"The client socket has timed out after {int(self._timeout.total_seconds() * 1000)}ms while trying "
                        f"to connect to ({self._host}, {self._port}): {error}"
                    ) from error
                time.sleep(0.05)
        sock.settimeout(None)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def _call(self, command: str, keys: list[str], values: list[bytes] = [], wait: float = 0.0) -> Any:  # noqa: B006
        fields = [command.encode(), repr(wait).encode(), str(len(keys)).encode(), *(k.encode() for k in keys), *values]
        with self._guard:
            try:
                self._socket.sendall(_message(fields))
                answer = _fields(self._socket)
            except OSError as error:
                raise DistStoreError(f"the store at {self._host}:{self._port} is gone: {error}") from error
        return _value(answer)

    @property
    def host(self) -> str:
        """The name it was given."""
        return self._host

    @property
    def port(self) -> int:
        """The port it is at."""
        return self._port

    @property
    def is_master(self) -> bool:
        """Whether this object serves."""
        return self._server is not None
