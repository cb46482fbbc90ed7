"""What pyproject.toml cannot say: a wheel has conf/ inside tasks, since `conf` is too common a name for a package."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildPy(build_py):
    """Builds as usual, then moves `conf`; an editable install leaves it in the checkout."""

    def run(self) -> None:
        """Builds the packages."""
        super().run()
        if not self.editable_mode:
            inside = Path(self.build_lib, "tasks", "conf")
            shutil.rmtree(inside, ignore_errors=True)  # of an earlier build
            shutil.move(Path(self.build_lib, "conf"), inside)


setup(cmdclass={"build_py": BuildPy})
