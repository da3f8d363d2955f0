"""Releases of the package in folders, from which the processes of a test load it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

FORMER = "08a3015b5cee37867093f482298741f83e4f41dc"
"""The revision that stands for the release before this one."""


class Releases:
    """A folder that processes have on their path, with the one release or the other in it."""

    def __init__(self, folder: Path) -> None:
        """`folder`: an empty one for both releases, which are built here."""
        self.path = folder / "installed"
        """What `PYTHONPATH` is to be."""
        self._folder = folder
        self._build("former", ["git", "-C", str(ROOT), "archive", FORMER])
        files = subprocess.run(
            ["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard"],
            stdout=subprocess.PIPE,
            check=True,
        )
        present = ["tar", "-c", "-C", str(ROOT), "--ignore-failed-read", "-T", "-"]
        self._build("present", present, files.stdout)
        self.install("former")

    def install(self, release: str) -> None:
        """Install a release (`former` or `present`) in place of the other, as `pip` does.

        What runs goes on; what starts from now on is of this release.
        """
        new = self._folder / "new"
        new.symlink_to(self._folder / release, target_is_directory=True)
        new.replace(self.path)

    def _build(self, name: str, packed: list[str], files: bytes = b"") -> None:
        """Install what the command `packed` writes as a tar into a folder `name`."""
        source = self._folder / f"{name}-source"
        source.mkdir()
        tar = subprocess.run(packed, input=files, stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(["tar", "-x", "-C", source], input=tar, check=True)
        if name == "former":  # Whatever it called itself.
            project = source / "pyproject.toml"
            named = re.sub(r'(?m)^version = ".*"$', 'version = "0.0.0"', project.read_text())
            project.write_text(named)
        offline = ["--no-deps", "--no-build-isolation", "--no-index", "--no-compile"]
        target = [*offline, "--target", str(self._folder / name), str(source)]
        subprocess.run(
            [sys.executable, "-m", "pip", "--quiet", "install", *target],
            check=True,
            env={**os.environ, "PYTHONPATH": "", "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        )
