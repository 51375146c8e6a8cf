"""Makes `cases` importable, whichever folder pytest was started in."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
