"""The one part of the build that pyproject.toml cannot say: a file beside the package, read by Python when it starts.

``mindtorch_switch.pth`` makes ``MINDTORCH_SWITCH=1 python script.py`` mean what ``python -m mindtorch script.py`` means.
"""

import os

from setuptools import setup
from setuptools.command.build_py import build_py

PTH = "src/mindtorch/cli/startup/mindtorch_switch.pth"


class BuildWithSwitch(build_py):
    """Puts the ``.pth`` file where site-packages will be: in the wheel's root, also for ``pip install -e``."""

    def run(self) -> None:
        """Build as ever, then add the file."""
        super().run()
        target = self.get_finalized_command("install").install_lib if self.editable_mode else self.build_lib
        self.mkpath(target)
        self.copy_file(PTH, os.path.join(target, os.path.basename(PTH)))


setup(cmdclass={"build_py": BuildWithSwitch})
