"""``python -m mindtorch``: see `mindtorch.cli`."""

import sys

# python -m has put the current folder first: a file there named like a standard module must not hide that from us.
_first = None if getattr(sys.flags, "safe_path", False) else sys.path.pop(0)  # the flag is new in Python 3.11

from mindtorch.cli.main import main  # noqa: E402

if __name__ == "__main__":
    if _first is not None:
        sys.path.insert(0, _first)
    main()
