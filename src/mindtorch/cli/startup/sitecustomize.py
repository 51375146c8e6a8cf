"""Imported by every Python that a switched program starts (this folder is put on PYTHONPATH): switches it as well.

Another ``sitecustomize`` that this one hides is run afterwards, as it would have been.
"""

import importlib.machinery
import importlib.util
import os
import sys


def _switch() -> None:
    if os.environ.get("MINDTORCH_SWITCH") != "1":
        return
    here = os.path.dirname(os.path.abspath(__file__))
    if importlib.util.find_spec("mindtorch") is None:
        sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(here))))
    from mindtorch.cli.switch import install

    install()


def _hidden() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    others = [p for p in sys.path if os.path.abspath(p) != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


_switch()
_hidden()
