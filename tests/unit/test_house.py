"""The rules of the house that no tool checks for us. Each failure names the file and the way out."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
LONGEST = 350

# Values and decisions: they can be tested with `==` because they touch nothing.
PURE = {
    "errors",
    "events",
    "records",
    "plain",
    "filters",
    "task",
    "policy",
    "hosts",
    "addresses",
    "clienthello",
    "wire",
    "heads",
    "bodies",
    "orders",
    "argv",
    "verdict",
    "rewards",
    "harbor",
}
HANDS = {"asyncio", "socket", "subprocess", "threading", "ctypes", "docker", "asyncssh"}
# Started beside the agent's root, where a package found late would be the agent's.
ALONE = {"launcher", "tether"}


@functools.cache
def committed() -> tuple[Path, ...]:
    """List the files of the repository (of an unpacked archive: all files), as paths below TOP."""
    git = ["git", "-c", "safe.directory=*", "-C", str(TOP), "ls-files", "-z"]
    try:
        names = subprocess.run(git, check=True, capture_output=True, text=True).stdout.split("\0")
    except (OSError, subprocess.CalledProcessError):
        made = {"jobs", "build", "__pycache__"}
        paths = [path.relative_to(TOP) for path in TOP.rglob("*")]
        # Without git nobody says what is ours; what tools leave begins with a dot.
        ours = (
            p for p in paths if made.isdisjoint(p.parts) and not re.match(r"\.(?!ci\b|gitignore)", str(p))
        )
        names = [str(path) for path in ours]
    return tuple(Path(name) for name in sorted(names) if name and (TOP / name).is_file())


def modules() -> list[Path]:
    """List the Python modules of both packages, committed or not, as paths below TOP."""
    return [
        path.relative_to(TOP)
        for package in ("cell", "hudtui")
        for path in sorted((TOP / package).rglob("*.py"))
    ]


def imported(path: Path) -> set[str]:
    """Return the dotted names that a module imports, wherever in it; names under TYPE_CHECKING count too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse((TOP / path).read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            near = path.parts[: len(path.parts) - node.level] if node.level else ()
            start = ".".join([*near, *([node.module] if node.module else [])])
            names |= {f"{start}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("path", modules(), ids=str)
def test_a_module_is_one_idea_with_a_name_and_a_docstring(path: Path) -> None:
    text = (TOP / path).read_text()
    assert text.count("\n") <= LONGEST, f"{path} has outgrown its idea: split it by idea"
    assert ast.get_docstring(ast.parse(text)), f"{path} says nothing of what it is for"
    names = {path.stem, *path.parts[1:-1]}
    vague = {"utils", "util", "helpers", "common", "base", "manager", "types", "misc"}
    assert not names & vague, f"{path}: name it for what it knows"
    assert not (names - {"__init__", "__main__"}) & sys.stdlib_module_names, (
        f"{path} is named as a standard module"
    )


@pytest.mark.parametrize("path", [p for p in modules() if p.parts[0] == "cell"], ids=str)
def test_who_imports_what(path: Path) -> None:
    tops = {name.split(".")[0] for name in imported(path)}
    assert not tops & {"hudtui", "textual"}, f"{path}: a cell knows nothing of screens"
    if path.parts[0] == "cell" and path.parts[1].removesuffix(".py") in PURE:
        assert not tops & HANDS, f"{path} decides, it does not act"
        ours = {name.split(".")[1] for name in imported(path) if name.startswith("cell.")}
        impure = ours - PURE
        assert not impure, f"{path} decides, and {impure} acts"
    if ALONE & set(path.parts):
        beside = {name for name in imported(path) if name.split(".")[:2] == ["cell", "launcher"]}
        others = {name.split(".")[0] for name in imported(path) - beside}
        assert others <= sys.stdlib_module_names, f"{path} stands alone: the standard library only"


def test_nothing_is_left_to_do() -> None:
    mark = "TO" + "DO"
    for path in committed():
        if path.suffix in {".py", ".md", ".toml", ".tcss", ".sh"} and "fixtures" not in path.parts:
            assert mark not in (TOP / path).read_text(), f"{path}: do it or open an issue"


def test_every_module_is_imported_by_a_test() -> None:
    words = "\n".join(p.read_text() for p in (TOP / "tests").rglob("test_*.py"))
    names = [".".join(path.with_suffix("").parts) for path in modules() if path.stem != "__main__"]
    names = [name.removesuffix(".__init__") for name in names]
    tested = set()
    for name in names:
        package, _, stem = name.rpartition(".")
        if re.search(rf"\b{re.escape(name)}\b|from {re.escape(package)} import [^#]*?\b{stem}\b", words):
            tested.add(name)
    # What a package has for itself is seen through it.
    parts = {"cell.task", "cell.trials", "cell.verdict", "cell.harbor"} & tested
    seen = tested - {"cell", "hudtui"} | parts
    untested = [name for name in names if "." in name and not any(name.startswith(known) for known in seen)]
    assert not untested, f"no test imports {', '.join(untested)}"


def test_the_commands_of_the_readme_exist() -> None:
    makefile = (TOP / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z]+):", makefile, re.M))
    for page in ("README.md", "CONTRIBUTING.md"):
        # Only what is set as code is a command: prose may "make sure".
        code = "\n".join(re.findall(r"```.*?```|`[^`]+`", (TOP / page).read_text(), re.S))
        told = set(re.findall(r"(?:^|`)make ([a-z]+)", code, re.M))
        assert told <= targets, f"{page} tells of make targets that are not there: {told - targets}"
        for script in re.findall(r"(?<![\w/.])((?:tools|\.ci)/\w+)", code):
            assert (TOP / script).is_file(), f"{page} tells of {script}"


def test_the_links_of_the_pages_lead_somewhere() -> None:
    pages = [p for p in committed() if p.suffix == ".md" and "fixtures" not in p.parts]
    for page in pages:
        for link in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", (TOP / page).read_text()):
            assert (TOP / page.parent / link).exists(), f"{page} links to {link}"


def test_the_makefile_says_of_every_target_what_it_is_for() -> None:
    makefile = (TOP / "Makefile").read_text()
    silent = [line for line in re.findall(r"^[a-z]+:.*", makefile, re.M) if "## " not in line]
    assert not silent


def test_nothing_committed_names_this_machine_or_where_packages_come_from() -> None:
    # Put together here, so that this file does not hold what it looks for.
    registries = [
        "pypi" + ".org",
        "files.python" + "hosted",
        "docker" + ".io/",
        "ghcr" + ".io",
        "quay" + ".io",
        "registry" + ".npm",
    ]
    places = [
        "/" + "work/",
        "/" + "root/.pyenv",
        "/" + "opt/pypi",
        "/" + "opt/wheels",
        ".." + "/shared",
        "/home" + "/runner",
    ]
    found = []
    for path in committed():
        raw = (TOP / path).read_bytes()
        if b"\0" in raw[:4096] or "fixtures" in path.parts or path.name == "LICENSE":
            continue
        text = raw.decode("utf-8", "replace")
        found += [f"{path}: {word}" for word in registries + places if word in text]
    assert not found, "\n".join(found)


def test_constraints_pin_exactly_and_cover_what_is_declared() -> None:
    lines = [line for line in (TOP / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.!+]+", line) for line in lines), "a line that is not NAME==VERSION"
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in lines}
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    declared = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    packages = {re.split(r"[=>;]", name)[0].lower().replace("_", "-") for name in declared}
    assert packages and packages <= pinned, f"make constraints: {packages - pinned} are not pinned"


def test_scripts_can_be_run() -> None:
    for script in ("tools/setup", "tools/images", ".ci/run"):
        assert (TOP / script).stat().st_mode & 0o111, f"chmod +x {script}"
        subprocess.run(["bash", "-n", str(TOP / script)], check=True)


# Promises that are kept, and the numbers of each kind. H1, H6 and V6 are for later.
PROMISES = {
    "s": range(1, 10),
    "t": range(1, 11),
    "h": range(2, 6),
    "i": range(1, 4),
    "n": range(1, 12),
    "g": range(1, 5),
    "v": (*range(1, 6), 7),
    "r": range(1, 5),
    "o": range(1, 7),
}


@pytest.mark.parametrize("promise", [f"{kind}{n}" for kind, numbers in PROMISES.items() for n in numbers])
def test_each_promise_has_a_test_of_the_real_thing_with_its_name(promise: str) -> None:
    files = [path for part in ("live", "attacks", "tui") for path in (TOP / "tests" / part).glob("test_*.py")]
    named = re.compile(rf"^(?:async )?def test_(?:\w+_)?{promise}_", re.M)
    assert any(named.search(path.read_text()) for path in files), f"{promise.upper()} has no live test"
