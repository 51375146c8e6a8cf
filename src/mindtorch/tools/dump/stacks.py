"""Where in the user's program a call was made, and how it was written there."""

from __future__ import annotations

import inspect
import linecache
import os
import sys
from types import CodeType, FrameType
from typing import Any

_TOOLS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_PACKAGE = os.path.dirname(os.path.dirname(_TOOLS)) + os.sep
_LAYERS = os.path.join("torch", "nn", "modules") + os.sep
_folders: list[str] = []
_foreign: dict[str, bool] = {}
_lines: dict[tuple[str, int, str], str] = {}


def _framework_folders() -> list[str]:
    """Folders whose frames are the framework's or ours; torchvision's models count as the user's program."""
    from mindtorch.cli import switch

    found = [_PACKAGE]
    real = switch.real_torch() or switch.away_torch()
    if real is not None and real.__file__:
        found.append(os.path.dirname(os.path.abspath(real.__file__)) + os.sep)
    return found


def is_framework(filename: str) -> bool:
    """Whether a frame of this file belongs to PyTorch, mindtorch or this tool."""
    got = _foreign.get(filename)
    if got is None:
        folders = _framework_folders()
        if len(folders) > len(_folders):
            _folders[:] = folders
            _foreign.clear()
        got = filename.startswith("<mindtorch") or any(filename.startswith(f) for f in folders)
        got = got and f"torchvision{os.sep}models" not in filename
        _foreign[filename] = got
    return got


def call_site(frame: FrameType | None, layers: bool = False) -> tuple[FrameType | None, FrameType | None]:
    """The innermost frame of the user's program above ``frame``, and the framework's frame it called.

    With ``layers`` the forward functions of ``torch.nn`` count as the user's program.
    """
    below = None
    while frame is not None and is_framework(frame.f_code.co_filename) and not (layers and _is_layer(frame.f_code.co_filename)):
        below, frame = frame, frame.f_back
    return frame, below


def _is_layer(filename: str) -> bool:
    return _LAYERS in filename and not filename.endswith("module.py")


def user_stack(filtered: bool = True, depth: int = 2) -> list[str]:
    """Lines ``File <path>, line <n>, in <function>, \\n <source>``, innermost first; frames of this tool never."""
    frame: FrameType | None = sys._getframe(depth)
    out = []
    while frame is not None:
        name = frame.f_code.co_filename
        if not (name.startswith("<frozen ") or is_framework(name) if filtered else name.startswith(_TOOLS)):
            out.append(_line(name, frame.f_lineno, frame.f_code.co_name, frame.f_globals))
        frame = frame.f_back
    return out


def _line(name: str, number: int, function: str, scope: dict[str, Any]) -> str:
    key = (name, number, function)
    got = _lines.get(key)
    if got is None:
        source = linecache.getline(name, number, scope).strip()
        got = _lines[key] = f"File {name}, line {number}, in {function}, \n {source}"
    return got


# ------------------------------------------------------------------------------------------ how a call is written
_BINARY = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "@": "matmul", "&": "and",
    "|": "or", "^": "xor", "<<": "lshift", ">>": "rshift",
}  # fmt: skip
_OLD_BINARY = {
    "ADD": "add", "SUBTRACT": "sub", "MULTIPLY": "mul", "TRUE_DIVIDE": "truediv", "FLOOR_DIVIDE": "floordiv", "MODULO": "mod",
    "POWER": "pow", "MATRIX_MULTIPLY": "matmul", "AND": "and", "OR": "or", "XOR": "xor", "LSHIFT": "lshift", "RSHIFT": "rshift",
}  # fmt: skip
_COMPARE = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
_UNARY = {"UNARY_NEGATIVE": "neg", "UNARY_INVERT": "invert"}
_written: dict[tuple[CodeType, int], tuple[str, str]] = {}
_arguments: dict[tuple[CodeType, int], tuple[int, tuple[str, ...]] | None] = {}
_tables: dict[CodeType, dict[int, Any]] = {}


def operator_at(frame: FrameType) -> str | None:
    """``__mul__`` when the instruction that ``frame`` is at is an operator, else None."""
    kind, word = _at(frame)
    return word if kind == "operator" else None


def reflected_at(frame: FrameType) -> bool:
    """Whether the operator at the frame's instruction has a number on its left (``2 * x``), as far as the code tells."""
    table = _instructions(frame.f_code)
    i = table.get(frame.f_lasti)
    at = getattr(i, "positions", None)  # new in Python 3.11
    if i is None or at is None or i.opname != "BINARY_OP":
        return False
    end = (at.end_lineno, at.end_col_offset)
    left = [
        j for j in table.values()
        if (p := j.positions) and (p.lineno, p.col_offset) == (at.lineno, at.col_offset) and (p.end_lineno, p.end_col_offset) < end
    ]  # fmt: skip
    if not left:
        return False
    operand = max(left, key=lambda j: (j.positions.end_lineno, j.positions.end_col_offset))
    if operand.opname == "LOAD_CONST":
        return isinstance(operand.argval, (int, float))
    if operand.opname not in ("LOAD_FAST", "LOAD_NAME", "LOAD_GLOBAL", "LOAD_DEREF"):
        return False
    return isinstance(frame.f_locals.get(operand.argval, frame.f_globals.get(operand.argval)), (int, float))


def callee_at(frame: FrameType) -> str | None:
    """``F.relu``, ``x.relu`` or ``relu``: the expression called at the frame's instruction; None when it is not plain."""
    kind, word = _at(frame)
    return word if kind == "call" else None


def written_at(frame: FrameType) -> tuple[int, tuple[str, ...]] | None:
    """How many arguments the call at the frame's instruction gives by place, and which by name.

    None for operators, and where ``*`` or ``**`` leaves it open.
    """
    key = (frame.f_code, frame.f_lasti)
    if key not in _arguments:
        _arguments[key] = _read_arguments(frame.f_code, frame.f_lasti)
    return _arguments[key]


def _read_arguments(code: CodeType, at: int) -> tuple[int, tuple[str, ...]] | None:
    table = _instructions(code)
    before = sorted(o for o in table if o <= at)
    call = table[before[-1]] if before else None
    if call is None or not call.opname.startswith(("CALL", "PRECALL")) or call.opname == "CALL_FUNCTION_EX":
        return None
    names: tuple[str, ...] = ()
    for o in reversed(before[-4:]):  # the names are loaded just before the call, in 3.11 with PRECALL between
        i = table[o]
        if i.opname == "KW_NAMES":
            names = code.co_consts[i.arg]
        elif i.opname == "LOAD_CONST" and call.opname in ("CALL_FUNCTION_KW", "CALL_KW"):
            names = i.argval
        elif i is call or i.opname == "PRECALL":
            continue
        break
    return call.arg - len(names), tuple(names)


def as_written(user: FrameType, below: FrameType, method: bool) -> tuple[list[Any], dict[str, Any]] | None:
    """Arguments of the function in frame ``below`` by place and by name, as ``user`` wrote the call. None where it cannot be told.

    ``method``: its first argument is written before the name.
    """
    code, at = below.f_code, written_at(user)
    here = below.f_locals
    if code.co_argcount == 0:  # def f(*args, **kwargs) has them as they were written
        if not code.co_flags & inspect.CO_VARARGS:
            return None
        rest = code.co_varnames[code.co_kwonlyargcount :]
        return list(here[rest[0]]), dict(here[rest[1]]) if code.co_flags & inspect.CO_VARKEYWORDS else {}
    names = code.co_varnames[: code.co_argcount]
    if at is None:
        if operator_at(user) is None:
            return None
        return [here[k] for k in names if k in here], {}
    count, keywords = at[0] + (method or names[0] == "self"), at[1]
    if any(k not in here for k in (*names[:count], *keywords)):
        return None
    placed = [here[k] for k in names[:count]]
    if code.co_flags & inspect.CO_VARARGS and count > len(names):
        placed += here[code.co_varnames[code.co_argcount + code.co_kwonlyargcount]]
    return placed, {k: here[k] for k in keywords}


def _at(frame: FrameType) -> tuple[str, str]:
    key = (frame.f_code, frame.f_lasti)
    got = _written.get(key)
    if got is None:
        got = _written[key] = _read(frame.f_code, frame.f_lasti)
    return got


def _instructions(code: CodeType) -> dict[int, Any]:
    import dis

    table = _tables.get(code)
    if table is None:
        table = _tables[code] = {i.offset: i for i in dis.get_instructions(code)}
    return table


def _read(code: CodeType, at: int) -> tuple[str, str]:
    table = _instructions(code)
    i = table.get(at)
    if i is None:  # in a call of a Python function the position is behind the call, in its inline cache
        before = [offset for offset in table if offset <= at]
        if not before:
            return "", ""
        i = table[max(before)]
    op = i.opname
    if op == "BINARY_OP":
        text = i.argrepr
        inplace = text.endswith("=") and text[:-1] in _BINARY
        word = _BINARY.get(text[:-1] if inplace else text)
        return ("operator", f"__{'i' if inplace else ''}{word}__") if word else ("", "")
    if op.startswith(("BINARY_", "INPLACE_")) and op.partition("_")[2] in _OLD_BINARY:
        return "operator", f"__{'i' if op.startswith('I') else ''}{_OLD_BINARY[op.partition('_')[2]]}__"
    if op in _UNARY:
        return "operator", f"__{_UNARY[op]}__"
    if op == "COMPARE_OP" and i.argval in _COMPARE:
        return "operator", f"__{_COMPARE[i.argval]}__"
    if op in ("BINARY_SUBSCR", "BINARY_SLICE"):
        return "operator", "__getitem__"
    if op in ("STORE_SUBSCR", "STORE_SLICE"):
        return "operator", "__setitem__"
    if op.startswith("CALL") or op == "PRECALL":
        return "call", _callee(table, i)
    return "", ""


def _callee(table: dict[int, Any], call: Any) -> str:
    """Dotted text of what a call instruction calls, by the source ranges of the instructions before it."""
    at = getattr(call, "positions", None)
    if at is None or at.lineno is None or at.col_offset is None:
        return _callee_before(table, call)
    start, end = (at.lineno, at.col_offset), (at.end_lineno, at.end_col_offset)
    parts: dict[tuple[int, int], Any] = {}
    for offset, i in table.items():
        p = i.positions
        if offset >= call.offset or p is None or p.col_offset is None or not i.opname.startswith("LOAD_"):
            continue
        if (p.lineno, p.col_offset) == start and (p.end_lineno, p.end_col_offset) < end:
            parts[p.end_lineno, p.end_col_offset] = i
    words = [parts[k] for k in sorted(parts)]
    if not words:
        return ""
    text = str(words[0].argval) if words[0].opname != "LOAD_CONST" else ""
    for i in words[1:]:
        text += f".{i.argval}" if i.opname in ("LOAD_METHOD", "LOAD_ATTR") else ""
    if words[0].opname in ("LOAD_METHOD", "LOAD_ATTR"):
        text = f"().{text}"
    return text


def _callee_before(table: dict[int, Any], call: Any) -> str:
    """Without source ranges (Python 3.10): the last method loaded before a method call, if nothing is called between."""
    if call.opname != "CALL_METHOD":
        return ""
    for offset in sorted((o for o in table if o < call.offset), reverse=True):
        i = table[offset]
        if i.opname.startswith("CALL"):
            return ""
        if i.opname == "LOAD_METHOD":
            before = table.get(offset - 2)
            known = before is not None and before.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FAST", "LOAD_DEREF")
            return f"{before.argval}.{i.argval}" if known else f"().{i.argval}"
    return ""
