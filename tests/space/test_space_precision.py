"""A space knows that its vectors are int8: it goes on with them, and is never mixed with others."""

from __future__ import annotations

from pathlib import Path

import pytest

from kglink.errors import SpaceError
from trained_spaces import make_workspace, opened, plain_of


def test_a_space_of_int8_stays_one(tmp_path: Path) -> None:
    folder = make_workspace(tmp_path / "workspace")
    model = str(plain_of(folder))
    with opened(folder, encoder__precision="int8") as workspace:
        workspace.build(model=model)
    with opened(folder) as workspace:
        assert workspace.encoder.hardware.precision == "int8"
        assert workspace.space().manifest.model.precision == "int8"
        assert workspace.build().encoded_rows == 0
    with opened(folder, encoder__precision="fp32") as workspace:
        with pytest.raises(SpaceError, match=r"are int8, and encoder\.precision says otherwise"):
            workspace.space()
        assert workspace.build().reused_rows == 0
    with (
        opened(folder, encoder__precision="int8") as workspace,
        pytest.raises(SpaceError, match=r"are fp32 or bf16, and encoder\.precision says int8"),
    ):
        workspace.space()
