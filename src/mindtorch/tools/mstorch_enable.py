"""Importing this switches the program: from here on ``import torch`` means mindtorch, in child processes as well."""

from mindtorch.cli.switch import active, inherit, install

if not active():
    install()
inherit()
