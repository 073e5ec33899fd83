from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from cell import agents
from cell.errors import UsageError


@pytest.mark.parametrize("agent", ["nop", "oracle", "human", "exec:true"])
def test_known_agents(agent: str) -> None:
    agents.check(agent)


@pytest.mark.parametrize("agent", ["", "orcale", "exec:", "exec: ", "humans"])
def test_unknown_agents(agent: str) -> None:
    with pytest.raises(UsageError, match="exec:COMMAND"):
        agents.check(agent)


def test_an_archive_holds_the_folder_and_belongs_to_root(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a").write_text("x")
    with tarfile.open(fileobj=io.BytesIO(agents.archive(tmp_path))) as tar:
        assert tar.getnames() == ["sub", "sub/a"]
        assert {(member.uid, member.gid, member.uname) for member in tar} == {(0, 0, "root")}
