"""What a Harbor task can declare and this version does not do. Such a task is refused, never half run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cell.errors import TaskError
from cell.task import folder as taskfolder
from cell.task.file import Table


def unsupported(root: Table, path: Path) -> Iterator[TaskError]:
    """Yield one error for each thing declared that is not done, naming its file and key.

    Raises TaskError for one that is declared wrongly.
    """
    file, later = root.file, "not done by this version"
    world, verifier = root.section("environment"), root.section("verifier")
    steps = root.tables("steps")
    root.text("multi_step_reward_strategy", ("mean", "final"))
    if steps:
        yield TaskError(file, "steps", f"multi-step tasks are {later}")
    if (world.text("os") or "").lower() == "windows":
        yield TaskError(file, "environment.os", f"Windows containers are {later}")
    if world.integer("gpus", least=0):
        yield TaskError(file, "environment.gpus", f"GPUs are {later}")
    if world.texts("gpu_types"):
        yield TaskError(file, "environment.gpu_types", f"GPUs are {later}")
    if world.table("tpu") is not None:
        yield TaskError(file, "environment.tpu", f"TPUs are {later}")
    if world.tables("mcp_servers"):
        yield TaskError(file, "environment.mcp_servers", f"MCP servers are {later}")
    if world.text("skills_dir"):
        yield TaskError(file, "environment.skills_dir", f"skills are {later}")
    if world.table("healthcheck") is not None:
        yield TaskError(file, "environment.healthcheck", f"health checks are {later}")
    if verifier.tables("collect"):
        yield TaskError(file, "verifier.collect", f"collect hooks are {later}")
    for number, item in enumerate(root.items("artifacts")):
        entry = Table(file, f"artifacts[{number}]", item) if isinstance(item, dict) else None
        if entry and entry.text("service") not in (None, "main"):
            yield TaskError(file, entry.key("service"), f"artifacts of other services are {later}")
        if entry and (entry.text("destination") or entry.texts("exclude")):
            key = entry.key("destination" if entry.text("destination") else "exclude")
            yield TaskError(file, key, f"artifacts with a destination or exclusions are {later}")
    yield from _separate_verifier(verifier, path, f"a separate verifier environment is {later}")
    compose = path / "environment" / "docker-compose.yaml"
    if taskfolder.is_file(compose):
        yield TaskError(compose, "", f"compose is {later}")
    for part, script in (("tests", "test"), ("solution", "solve")):
        windows = path / part / f"{script}.bat"
        if taskfolder.is_file(windows) and not taskfolder.is_file(windows.with_suffix(".sh")):
            yield TaskError(windows, "", f"a batch file without a {script}.sh is {later}")
    for ignore in taskfolder.ignore_files(path):
        yield TaskError(ignore, "", f"leaving files out by .harborignore is {later}")


def _separate_verifier(verifier: Table, path: Path, message: str) -> Iterator[TaskError]:
    mode, own = verifier.text("environment_mode", ("shared", "separate")), verifier.table("environment")
    if mode == "shared" and own is not None:
        verifier.fail("environment_mode", '"shared" contradicts [verifier.environment]')
    if mode == "separate":
        yield TaskError(verifier.file, "verifier.environment_mode", message)
    if own is not None:
        yield TaskError(verifier.file, "verifier.environment", message)
    for name in ("Dockerfile", "docker-compose.yaml"):
        if mode != "shared" and taskfolder.is_file(path / "tests" / name):
            yield TaskError(path / "tests" / name, "", message)
