"""The cost of reading a long conversation, on a short one."""

from __future__ import annotations

import pytest

from foretoken.bench import reading


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    reading.main(["-n", "3000", "--rounds", "1"])
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    names = [row.split("|")[1].strip() for row in rows[1:]]
    assert names[0] == "tokenising"
    assert len(names) == 4
    assert all(float(cell) > 0 for row in rows[1:] for cell in row.split("|")[2:4])
