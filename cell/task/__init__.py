"""A Harbor task folder, as one frozen value with two phases.

    TASK/
      task.toml                 declares the world; unknown keys are kept as warnings
      instruction.md            what the agent is asked
      environment/              optional: Dockerfile; without it and `docker_image`, the composed root
      solution/solve.sh         optional: what the `oracle` agent runs
      tests/test.sh             the verifier; travels into the world only to grade
      README.md                 optional

`load` reads and checks all of it and raises nothing but `TaskError`. What a task declares and this
version does not do is in `Task.unsupported`, never ignored: whoever runs a task refuses it with the
first of those. Values from the folder are as their author wrote them; show them through `plain`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Literal

from cell.errors import TaskError, UsageError
from cell.plain import plain
from cell.task import file as taskfile
from cell.task import folder as taskfolder
from cell.task import gaps as taskgaps
from cell.task import network as tasknetwork
from cell.task.file import Table
from cell.task.network import Network

Variables = tuple[tuple[str, str], ...]
_KNOWN_SCHEMA = (1, 4)
_VERIFIER_TIMEOUT = 600.0
_BUILD_TIMEOUT = 600.0


@dataclass(frozen=True)
class Environment:
    """The world a task declares. Sizes are MiB, times seconds; None is "not declared".

    `docker_image` wins over `dockerfile`; with neither the root is the composed system root.
    """

    docker_image: str | None
    dockerfile: Path | None
    build_timeout_sec: float
    cpus: float | None
    memory_mb: int | None
    storage_mb: int | None
    gpus: int | None
    workdir: str | None
    env: Variables
    network_mode: str
    allowed_hosts: tuple[str, ...]
    os: str


@dataclass(frozen=True)
class Phase:
    """How one phase runs. `timeout_sec` None is no deadline, `user` None the image's own.

    `network_mode` is resolved; `network_key` says which key decided it.
    """

    name: Literal["agent", "verifier"]
    timeout_sec: float | None
    user: str | None
    env: Variables
    network_mode: str
    allowed_hosts: tuple[str, ...]
    network_key: str


@dataclass(frozen=True)
class Task:
    """One task. `digest` is a content hash of the folder, `short_name` the folder's name."""

    path: Path
    name: str
    short_name: str
    schema_version: str
    digest: str
    instruction: str
    environment: Environment
    agent: Phase
    verifier: Phase
    solution_env: Variables
    artifacts: tuple[str, ...]
    warnings: tuple[str, ...]
    unsupported: tuple[TaskError, ...]

    @property
    def tests(self) -> Path:
        """The folder that becomes `/tests` while the verifier runs."""
        return self.path / "tests"

    @property
    def solution(self) -> Path | None:
        """The folder that becomes `/solution` for the oracle; None without a `solve.sh`."""
        folder = self.path / "solution"
        return folder if taskfolder.is_file(folder / "solve.sh") else None


def load(path: Path, *, environ: Mapping[str, str] | None = None, oracle: bool = True) -> Task:
    """Read and check the task folder at `path`.

    `environ` answers `${VAR}` in declared variables (default: this process's environment).
    `oracle=False` leaves `[solution].env` unread, for runs whose agent does not need its secrets.

    Raises TaskError, and nothing else.
    """
    try:
        return _load(path, os.environ if environ is None else environ, oracle)
    except OSError as error:
        raise TaskError(path, "", f"cannot be read: {plain(error.strerror or 'unknown error')}") from None


def _load(path: Path, environ: Mapping[str, str], oracle: bool) -> Task:
    root = taskfile.read(path / "task.toml")
    world = root.section("environment")
    network = tasknetwork.baseline(world)
    gaps = tuple(taskgaps.unsupported(root, path))
    instruction = "" if root.items("steps") else _instruction(path)
    if not gaps:
        _require_tests(path)
    solution = root.section("solution").env(environ) if oracle else ()
    return Task(
        path=path.absolute(),
        name=_name(root) or _folder_name(path),
        short_name=_folder_name(path),
        schema_version=_schema_version(root),
        digest=taskfolder.digest(path),
        instruction=instruction,
        environment=_environment(world, path.absolute(), environ, network),
        agent=_phase("agent", root.section("agent"), network, environ),
        verifier=_phase("verifier", root.section("verifier"), network, environ),
        solution_env=solution,
        artifacts=tuple(_artifacts(root)),
        warnings=(*_warnings(root, instruction), *taskfolder.near_misses(path)),
        unsupported=gaps,
    )


def discover(path: Path) -> tuple[Path, ...]:
    """Return the task folders at `path`: itself, or the children of a dataset folder, sorted.

    Raises UsageError, with the remedy, when there is none.
    """
    if path.name == "task.toml" and path.is_file():
        raise UsageError(f"{path} is a file; give its folder, {path.parent}")
    try:
        if (path / "task.toml").exists():
            return (path,)
        found = sorted(child for child in path.iterdir() if (child / "task.toml").exists())
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "not a path"
        raise UsageError(f"{path}: {reason}; give a task folder or a folder of tasks") from None
    if not found and (path / "task.yaml").exists():
        raise UsageError(
            f"{path} is an old terminal-bench task (task.yaml); convert it to a Harbor task first"
        )
    if not found:
        raise UsageError(f"{path} holds no task: neither task.toml nor a folder with one")
    return tuple(found)


def select(
    paths: Sequence[Path], include: Sequence[str] = (), exclude: Sequence[str] = ()
) -> tuple[Path, ...]:
    """Keep the folders whose name fits one of `include` (all, if empty) and none of `exclude`."""

    def fits(path: Path, patterns: Sequence[str]) -> bool:
        return any(fnmatchcase(_folder_name(path), pattern) for pattern in patterns)

    return tuple(path for path in paths if (not include or fits(path, include)) and not fits(path, exclude))


def _folder_name(path: Path) -> str:
    return path.name if path.name not in ("", "..") else path.resolve().name or "task"


def _name(root: Table) -> str | None:
    table = root.table("task")
    if table is None:
        return None
    name = table.text("name")
    if name is None:
        table.fail("name", "is missing")
    if not re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9._-]*/[a-zA-Z0-9][a-zA-Z0-9._-]*", name) or ".." in name:
        table.fail("name", 'must be "org/name" of letters, digits, hyphens, underscores and dots')
    for key in ("version", "description"):
        table.text(key)
    table.texts("keywords")
    table.tables("authors")
    return name


def _schema_version(root: Table) -> str:
    return root.text("schema_version") or root.text("version") or "1.4"


def _instruction(path: Path) -> str:
    """Return what the agent is asked, without the leading canary comments that mark data sets."""
    lines = taskfile.read_text(path / "instruction.md").split("\n")
    start = 0
    while start < len(lines) and _is_canary(lines[start].strip().lower()):
        start += 1
    while start < len(lines) and not lines[start].strip():
        start += 1
    return "\n".join(lines[start:])


def _is_canary(line: str) -> bool:
    comment = line.startswith("#") or (line.startswith("<!--") and line.endswith("-->"))
    return comment and "canary" in line


def _environment(table: Table, path: Path, environ: Mapping[str, str], network: Network) -> Environment:
    dockerfile = path / "environment" / "Dockerfile"
    workdir = table.text("workdir")
    if workdir is not None and not workdir.startswith("/"):
        table.fail("workdir", "must be an absolute path")
    system = table.text("os")
    if system is not None and system.lower() not in ("linux", "windows"):
        table.text("os", ("linux", "windows"))
    image = table.text("docker_image")
    if image is not None and not image.strip():
        table.fail("docker_image", "must not be empty")
    return Environment(
        docker_image=image,
        dockerfile=dockerfile if taskfolder.is_file(dockerfile) else None,
        build_timeout_sec=table.number("build_timeout_sec") or _BUILD_TIMEOUT,
        cpus=table.number("cpus"),
        memory_mb=table.megabytes("memory"),
        storage_mb=table.megabytes("storage"),
        gpus=table.integer("gpus", least=0),
        workdir=workdir,
        env=table.env(environ),
        network_mode=network.mode,
        allowed_hosts=network.allowed_hosts,
        os=system.lower() if system else "linux",
    )


def _phase(
    name: Literal["agent", "verifier"], table: Table, baseline: Network, environ: Mapping[str, str]
) -> Phase:
    network = tasknetwork.for_phase(table, baseline)
    return Phase(
        name=name,
        timeout_sec=table.number("timeout_sec") or (_VERIFIER_TIMEOUT if name == "verifier" else None),
        user=table.user(),
        # `[agent]` has no `env` in Harbor's schema: there it is an unknown key.
        env=table.env(environ) if name == "verifier" else (),
        network_mode=network.mode,
        allowed_hosts=network.allowed_hosts,
        network_key=network.key,
    )


def _artifacts(root: Table) -> Iterator[str]:
    for number, item in enumerate(root.items("artifacts")):
        key = f"artifacts[{number}]"
        entry = Table(root.file, key, item) if isinstance(item, dict) else None
        source = entry.text("source") if entry else item
        if not isinstance(source, str) or not source or "\0" in source:
            root.fail(key, "must be a path, or a table with a source")
        if ".." in PurePosixPath(source).parts:
            root.fail(key, 'must not contain ".."')
        yield source


def _require_tests(path: Path) -> None:
    script = path / "tests" / "test.sh"
    if not taskfolder.is_file(script):
        there = script.exists() or script.is_symlink()
        raise TaskError(script, "", "is not a regular file" if there else "is missing")


def _warnings(root: Table, instruction: str) -> Iterator[str]:
    for key in taskfile.unknown_keys(root):
        yield f"task.toml: {key}: unknown key"
    version = re.fullmatch(r"([0-9]{1,4})\.([0-9]{1,4})", _schema_version(root))
    if version and (int(version[1]), int(version[2])) > _KNOWN_SCHEMA:
        yield f"task.toml: schema_version: {version[0]} is newer than 1.4, the newest known here"
    environment = root.section("environment")
    for old, new in (("allow_internet", "network_mode"), ("memory", "memory_mb"), ("storage", "storage_mb")):
        if old in environment.values:
            yield f"task.toml: environment.{old}: deprecated; use environment.{new}"
    if environment.flag("allow_internet") is not None and "network_mode" in environment.values:
        yield "task.toml: environment.allow_internet: ignored, as environment.network_mode is declared"
    for table in (environment, root.section("agent"), root.section("verifier")):
        for key, text in tasknetwork.unopened(table):
            yield f"task.toml: {key}: {text} is a kind of address that nothing opens"
    if not root.items("steps") and "multi_step_reward_strategy" in root.values:
        yield "task.toml: multi_step_reward_strategy: has no meaning without steps"
    if not root.items("steps") and not instruction.strip():
        yield "instruction.md: is empty"
