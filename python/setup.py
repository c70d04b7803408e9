"""Builds the wheel: `pip install ./python`.

The C++ module and the program are compiled by CMake from the repository that this folder is part of (`scripts/install.sh build python`
has what that needs). SHARDWRIGHT_BUILD names a build folder to use; otherwise build/wheel of the repository.
"""

import os
import pathlib
import shutil
import subprocess
import sys

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("SHARDWRIGHT_BUILD", HERE.parent / "build" / "wheel"))


def configure() -> None:
    command = ["cmake", "-S", HERE.parent, "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DSHARDWRIGHT_UNITED=ON",
               "-DSHARDWRIGHT_PYTHON=ON", "-DSHARDWRIGHT_TESTS=OFF", "-DSHARDWRIGHT_EXAMPLES=OFF",
               f"-DPython3_EXECUTABLE={sys.executable}"]
    if shutil.which("cmake") is None or subprocess.run(command).returncode != 0:
        if "SHARDWRIGHT_BUILD" not in os.environ:  # what failed is not taken for whole the next time
            (BUILD / "CMakeCache.txt").unlink(missing_ok=True)
        sys.exit("shardwright: CMake has failed, above; what it builds with, `scripts/install.sh build python` installs")


class BuildWithCMake(build_py):
    """Python's files, the compiled module and the program among ours, and the front end for MindSpore's programs in a
    folder of its own."""

    def run(self) -> None:
        super().run()
        if not (BUILD / "build.ninja").exists():
            configure()
        subprocess.run(["cmake", "--build", BUILD, "--target", "_core", "shardwright"], check=True)
        package = pathlib.Path(self.build_lib) / "shardwright"
        for module in (BUILD / "python" / "shardwright").glob("_core.*.so"):
            shutil.copy2(module, package)
        (package / "_bin").mkdir(exist_ok=True)
        shutil.copy2(BUILD / "shardwright", package / "_bin")
        shutil.copytree(HERE / "mindspore", package / "_compat" / "mindspore", dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns("__pycache__"))


class BinaryDistribution(Distribution):
    """Its wheel is for one kind of machine."""

    def has_ext_modules(self) -> bool:
        return True


setup(packages=["shardwright", "shardwright._aten", "shardwright._aten.conversions", "shardwright.torch"],
      package_dir={"shardwright": "shardwright"}, package_data={"shardwright": ["py.typed", "_core/*.pyi"]},
      cmdclass={"build_py": BuildWithCMake}, distclass=BinaryDistribution)
