"""Every program runs unchanged under PyTorch and under ``python -m mindtorch``; its losses agree step by step."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
SRC = HERE.parents[1] / "src"

# Relative tolerance of every loss. Adversarial and recurrent runs feed rounding back into themselves for many steps.
PROGRAMS = {
    "mnist_cnn": 1e-4,
    "vae": 1e-4,
    "dcgan": 1e-4,
    "char_rnn": 1e-3,
    "char_gpt": 1e-4,
    "reinforce": 1e-4,
    "resnet_fakedata": 1e-4,
    "unet": 1e-4,
    "transformer_classifier": 1e-4,
    "gan_penalty": 1e-4,
    "word_lm": 1e-3,
    "schedules_resume": 1e-4,
}


def run(command: list[str]) -> dict[str, Any]:
    """The JSON a program prints as its last line."""
    env = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=str(SRC))
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=120, cwd=HERE, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


def worst(want: Any, got: Any) -> float:
    """Largest relative difference; values below 1e-2 are compared on that scale."""
    want = want if isinstance(want, list) else [want]
    got = got if isinstance(got, list) else [got]
    assert len(want) == len(got)
    return max(abs(w - g) / max(abs(w), 1e-2) for w, g in zip(want, got))


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_program_matches_pytorch(name: str) -> None:
    script = str(HERE / f"{name}.py")
    want = run([sys.executable, script])
    got = run([sys.executable, "-m", "mindtorch", script])
    assert len(want["losses"]) == len(got["losses"]) == 30
    diffs = [abs(w - g) / max(abs(w), 1e-2) for w, g in zip(want["losses"], got["losses"])]
    print(f"{name}: worst loss difference {max(diffs):.2e}, final {worst(want['final'], got['final']):.2e}")
    assert max(diffs) <= PROGRAMS[name], f"step {diffs.index(max(diffs))}: {max(diffs):.2e}"
    assert worst(want["final"], got["final"]) <= 10 * PROGRAMS[name]
