"""The text the language models read: the topics of Python's own help."""

from pydoc_data.topics import topics


def load_text(length):
    return "".join(topics[key] for key in sorted(topics))[:length]
