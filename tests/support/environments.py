"""Fresh environments that borrow this one's packages, so that they are made without network."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

#: Runs a console script of whichever distribution offers it.
SCRIPT = """#!{python}
import sys
from importlib.metadata import entry_points
(script,) = entry_points(group="console_scripts", name={name!r})
sys.exit(script.load()())
"""


@dataclass(frozen=True)
class Environment:
    """A virtual environment; ``python`` is its interpreter."""

    folder: Path

    @property
    def bin(self) -> Path:
        """Where its commands lie."""
        return self.folder / "bin"

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.bin / "python"

    @property
    def packages(self) -> Path:
        """Where its own packages lie."""
        return Path(
            sysconfig.get_path(
                "purelib", "venv", {"base": str(self.folder), "platbase": str(self.folder)}
            )
        )

    def run(
        self, *command: str | Path, cwd: Path, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run one of its commands with no trace of ours; a failure shows what it printed."""
        program, *arguments = command
        done = subprocess.run(
            [self.bin / program, *arguments],
            cwd=cwd,
            env=clean_variables() | variables,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done

    def install(self, *arguments: str | Path) -> None:
        """Install one project or wheel and nothing that it needs."""
        subprocess.run(
            [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
            + ["--python", str(self.python), "install"]
            + ["--no-deps", "--no-index", "--no-build-isolation", "--ignore-installed"]
            + [str(argument) for argument in arguments],
            cwd=self.folder,
            # The build back end is ours; the environment itself is still empty.
            env=clean_variables() | {"PYTHONPATH": sysconfig.get_path("purelib")},
            check=True,
        )

    def borrow_packages(self) -> None:
        """Let it import our packages, other than those that we have from a working tree."""
        (self.packages / "borrowed.pth").write_text(_own_packages(), encoding="utf-8")

    def borrow_everything(self, *scripts: str) -> None:
        """Let it import all that we can, and give it these console scripts."""
        line = "".join(f"site.addsitedir({path!r});" for path in _own_packages().splitlines())
        (self.packages / "borrowed.pth").write_text(f"import site;{line}\n", encoding="utf-8")
        for name in scripts:
            script = self.bin / name
            script.write_text(SCRIPT.format(python=self.python, name=name), encoding="utf-8")
            script.chmod(0o755)


def fresh_environment(folder: Path) -> Environment:
    """An empty virtual environment, without even pip."""
    venv.create(folder, with_pip=False, symlinks=True)
    return Environment(folder)


def clean_variables() -> dict[str, str]:
    """Our environment variables without those that steer Python, pytest or kglink."""
    steering = ("KGLINK_", "PYTHON", "PYTEST_", "VIRTUAL_ENV", "COV_")
    return {name: value for name, value in os.environ.items() if not name.startswith(steering)}


def _own_packages() -> str:
    paths = dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
    return "\n".join(paths)
