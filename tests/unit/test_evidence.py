from __future__ import annotations

from pathlib import Path

from cell.evidence import changed_programs


def test_h4_only_what_can_act_on_a_verifier_is_named(tmp_path: Path) -> None:
    for path in (
        "usr/bin/cat",
        "app/solution.py",
        "venv/lib/site-packages/x.py",
        "etc/ld.so.preload",
        "etc/hosts",
    ):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    assert sorted(changed_programs([("/", tmp_path)])) == [
        "/etc/ld.so.preload",
        "/usr/bin/cat",
        "/venv/lib/site-packages/x.py",
    ]
    assert sorted(changed_programs([("/usr", tmp_path / "usr")])) == ["/usr/bin/cat"]
