"""Parts of the loader: collation, fetching, the worker process, and how batches travel from it."""

from . import collate as collate
from . import fetch as fetch
from . import pin_memory as pin_memory
from . import transport as transport
from . import worker as worker
