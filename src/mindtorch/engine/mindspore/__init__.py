"""The only room that imports MindSpore, and only when a kernel is first asked for (see ``door``)."""
