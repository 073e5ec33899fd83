from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cell.errors import TaskError, UsageError
from cell.task import Task, discover, load, select

REPO = Path(__file__).parents[2]
HARBOR = REPO / "tests/fixtures/harbor-0.25.0/tasks"
EXAMPLES = REPO / "examples/tasks"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A task folder that is as small as one can be."""
    root = tmp_path / "demo"
    (root / "tests").mkdir(parents=True)
    (root / "tests/test.sh").write_text("#!/bin/sh\n")
    (root / "instruction.md").write_text("Do it.\n")
    (root / "task.toml").write_text("")
    return root


def declare(folder: Path, toml: str, **environ: str) -> Task:
    (folder / "task.toml").write_text(toml)
    return load(folder, environ=environ)


def test_an_empty_task_toml_is_all_defaults(folder: Path) -> None:
    task = load(folder)
    assert (task.name, task.short_name, task.schema_version) == ("demo", "demo", "1.4")
    assert task.instruction == "Do it.\n"
    assert (task.agent.timeout_sec, task.verifier.timeout_sec) == (None, 600.0)
    assert (task.agent.user, task.verifier.user) == (None, None)
    assert task.environment.docker_image is task.environment.dockerfile is task.solution is None
    assert (task.warnings, task.unsupported) == ((), ())


def test_everything_declared_arrives(folder: Path) -> None:
    (folder / "environment").mkdir()
    (folder / "environment/Dockerfile").write_text("FROM scratch\n")
    (folder / "solution").mkdir()
    (folder / "solution/solve.sh").write_text("#!/bin/sh\n")
    task = declare(
        folder,
        """
        version = "1.0"
        artifacts = ["/app/out", { source = "/app/log", service = "main" }]
        [task]
        name = "org/demo-task"
        [metadata]
        anything = { goes = [1, 2] }
        [agent]
        timeout_sec = 30
        user = 1000
        [verifier]
        timeout_sec = 1.5
        user = "root:staff"
        env = { TOKEN = "${SECRET}", PLAIN = "a ${SECRET}", EMPTY = "${NO:-}" }
        [solution]
        env = { X = "${MISSING:-y}" }
        [environment]
        docker_image = "debian:bookworm"
        cpus = 0.5
        memory = "2G"
        storage_mb = 512.0
        workdir = "/app"
        env = { "odd.name-x" = "1" }
        network_mode = "no-network"
        """,
        SECRET="s3",
    )
    assert (task.name, task.short_name, task.schema_version) == ("org/demo-task", "demo", "1.0")
    assert task.artifacts == ("/app/out", "/app/log")
    assert (task.agent.timeout_sec, task.agent.user, task.agent.env) == (30.0, "1000", ())
    assert (task.verifier.timeout_sec, task.verifier.user) == (1.5, "root:staff")
    assert task.verifier.env == (("TOKEN", "s3"), ("PLAIN", "a ${SECRET}"), ("EMPTY", ""))
    assert task.solution_env == (("X", "y"),)
    world = task.environment
    assert (world.docker_image, world.cpus, world.memory_mb, world.storage_mb) == (
        "debian:bookworm",
        0.5,
        2048,
        512,
    )
    assert (world.workdir, world.env, world.gpus, world.os) == ("/app", (("odd.name-x", "1"),), None, "linux")
    assert world.dockerfile == folder / "environment/Dockerfile"
    assert task.solution == folder / "solution"
    assert task.warnings == ("task.toml: environment.memory: deprecated; use environment.memory_mb",)
    assert task.unsupported == ()


@pytest.mark.parametrize(
    ("toml", "key", "says"),
    [
        # wrong types
        ("agent = 3", "agent", "must be a table, not a whole number"),
        ("[agent]\ntimeout_sec = '20'", "agent.timeout_sec", "must be a number, not text"),
        ("[agent]\ntimeout_sec = true", "agent.timeout_sec", "must be a number, not true or false"),
        ("[agent]\nuser = 1.5", "agent.user", "must be a user's name or number, not a number"),
        ("[environment]\nmemory_mb = 1979-05-27", "environment.memory_mb", "not a date or time"),
        ("[environment]\nenv = ['A=1']", "environment.env", "must be a table, not a list"),
        ("[environment.env]\nA = 1", "environment.env.A", "must be text, not a whole number"),
        ("[environment]\nmcp_servers = 'x'", "environment.mcp_servers", "must be a list, not text"),
        ("steps = [1]", "steps[0]", "must be a table"),
        ("artifacts = [1]", "artifacts[0]", "must be a path"),
        ("version = 1.0", "version", "must be text, not a number"),
        # out of range
        ("[verifier]\ntimeout_sec = 0", "verifier.timeout_sec", "above 0"),
        ("[verifier]\ntimeout_sec = nan", "verifier.timeout_sec", "finite"),
        (f"[verifier]\ntimeout_sec = 0x{'f' * 9000}", "verifier.timeout_sec", "finite"),
        (f"[environment]\ngpus = 0x{'f' * 9000}", "environment.gpus", "whole number from 0"),
        ("[agent]\nuser = -1", "agent.user", "from 0 to 2147483647"),
        ("[agent]\nuser = ' '", "agent.user", "must not be empty"),
        ("[environment]\nworkdir = 'app'", "environment.workdir", "absolute"),
        ("[environment]\nos = 'plan9'", "environment.os", '"linux", "windows"'),
        ("[environment]\nmemory = '2 tons'", "environment.memory", "size"),
        ("artifacts = ['/a/../../b']", "artifacts[0]", '".."'),
        ("[task]\nname = 'plain'", "task.name", '"org/name"'),
        ("[task]", "task.name", "is missing"),
        # contradictions
        (
            "[environment]\nmemory = '2G'\nmemory_mb = 1",
            "environment.memory",
            "contradicts environment.memory_mb",
        ),
        (
            "[verifier]\nenvironment_mode = 'shared'\n[verifier.environment]",
            "verifier.environment_mode",
            "contradicts [verifier.environment]",
        ),
        # variables
        ("[verifier.env]\nA = '${NOT_SET}'", "verifier.env.A", "NOT_SET, which is not set here"),
        ("[solution.env]\nA = '${NOT_SET}'", "solution.env.A", "NOT_SET, which is not set here"),
        ('[environment.env]\n"A=B" = "1"', "environment.env.A=B", "name"),
        ('[environment.env]\nA = "\\u0000"', "environment.env.A", "NUL"),
    ],
)
def test_a_wrong_declaration_is_one_line_with_file_and_key(
    folder: Path, toml: str, key: str, says: str
) -> None:
    with pytest.raises(TaskError) as caught:
        declare(folder, toml)
    assert caught.value.file == str(folder / "task.toml")
    assert caught.value.key == key
    assert says in caught.value.message
    assert len(str(caught.value).splitlines()) == 1


def test_a_solution_that_is_not_run_needs_no_secrets(folder: Path) -> None:
    (folder / "task.toml").write_text("[solution.env]\nA = '${NOT_SET}'")
    assert load(folder, environ={}, oracle=False).solution_env == ()


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("task.toml", None, "is missing"),
        ("task.toml", b"\x00\x01\x02", "is binary"),
        ("task.toml", b"a = '\xff'", "is not UTF-8 text (byte 5)"),
        ("task.toml", b"#" * (1 << 20) + b"\n", "is larger than 1 MiB"),
        ("task.toml", b"[agent", "is not valid TOML"),
        ("task.toml", b"a = " + b"[" * 50_000, "nested too deeply"),
        ("task.toml", b"a = " + b"9" * 9_000, "is not valid TOML"),
        ("instruction.md", None, "is missing"),
        ("instruction.md", b"\xff", "is not UTF-8 text"),
        ("tests/test.sh", None, "is missing"),
    ],
)
def test_a_bad_or_missing_file_is_one_line(folder: Path, name: str, data: bytes | None, says: str) -> None:
    (folder / name).unlink()
    if data is not None:
        (folder / name).write_bytes(data)
    with pytest.raises(TaskError) as caught:
        load(folder)
    assert caught.value.file == str(folder / name)
    assert says in caught.value.message
    assert len(str(caught.value).splitlines()) == 1


def test_a_fifo_is_not_read(folder: Path) -> None:
    (folder / "task.toml").unlink()
    os.mkfifo(folder / "task.toml")
    with pytest.raises(TaskError, match="is not a regular file"):
        load(folder)


def test_no_folder_is_a_task_error(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path / ("n" * 300), Path("a\0b")):
        with pytest.raises(TaskError):
            load(path)


UNSUPPORTED = [
    ("[[steps]]\nname = 'one'", "steps"),
    ("[environment]\nos = 'Windows'", "environment.os"),
    ("[environment]\ngpus = 1", "environment.gpus"),
    ("[environment]\ngpu_types = ['H100']", "environment.gpu_types"),
    ("[environment]\ntpu = { type = 'v6e', topology = '2x4' }", "environment.tpu"),
    ("[[environment.mcp_servers]]\nname = 'x'", "environment.mcp_servers"),
    ("[environment]\nskills_dir = '/skills'", "environment.skills_dir"),
    ("[environment.healthcheck]\ncommand = 'true'", "environment.healthcheck"),
    ("[[verifier.collect]]\ncommand = 'true'", "verifier.collect"),
    ("[verifier]\nenvironment_mode = 'separate'", "verifier.environment_mode"),
    ("[verifier.environment]", "verifier.environment"),
    ("[[artifacts]]\nsource = '/x'\nservice = 'db'", "artifacts[0].service"),
    ("[[artifacts]]\nsource = '/x'\ndestination = 'y'", "artifacts[0].destination"),
    ("[[artifacts]]\nsource = '/x'\nexclude = ['y']", "artifacts[0].exclude"),
]


@pytest.mark.parametrize(("toml", "key"), UNSUPPORTED)
def test_what_is_not_done_yet_is_never_ignored(folder: Path, toml: str, key: str) -> None:
    task = declare(folder, toml)
    assert [(error.file, error.key) for error in task.unsupported] == [(str(folder / "task.toml"), key)]
    assert "not done by this version" in str(task.unsupported[0])


@pytest.mark.parametrize(
    "name",
    [
        "environment/docker-compose.yaml",
        "tests/Dockerfile",
        "tests/docker-compose.yaml",
        "solution/solve.bat",
        "tests/data/.harborignore",
        ".harborignore",
    ],
)
def test_a_file_that_declares_something_not_done_is_never_ignored(folder: Path, name: str) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("")
    assert [error.file for error in load(folder).unsupported] == [str(folder / name)]


def test_a_task_for_windows_only_is_unsupported_not_broken(folder: Path) -> None:
    (folder / "tests/test.sh").rename(folder / "tests/test.bat")
    assert [error.file for error in load(folder).unsupported] == [str(folder / "tests/test.bat")]


@pytest.mark.parametrize(
    "toml",
    [
        "steps = []",
        "[environment]\ngpus = 0\nmcp_servers = []\ngpu_types = []",
        "[verifier]\nenvironment_mode = 'shared'",
    ],
)
def test_what_is_declared_empty_is_not_declared(folder: Path, toml: str) -> None:
    assert declare(folder, toml).unsupported == ()


def test_unknown_keys_are_warnings(folder: Path) -> None:
    task = declare(folder, 'colour = 1\n[agent]\nfoo = 1\nenv = { A = "1" }\n[metadata]\nfree = 1')
    assert task.warnings == tuple(
        f"task.toml: {key}: unknown key" for key in ("colour", "agent.foo", "agent.env")
    )


def test_lint_like_warnings(folder: Path) -> None:
    (folder / "instruction.md").write_text(" \n")
    toml = 'schema_version = "1.10"\nmulti_step_reward_strategy = "mean"\n'
    task = declare(folder, toml + '[environment]\nallow_internet = true\nnetwork_mode = "no-network"')
    assert task.warnings == (
        "task.toml: schema_version: 1.10 is newer than 1.4, the newest known here",
        "task.toml: environment.allow_internet: deprecated; use environment.network_mode",
        "task.toml: environment.allow_internet: ignored, as environment.network_mode is declared",
        "task.toml: multi_step_reward_strategy: has no meaning without steps",
        "instruction.md: is empty",
    )


def test_an_entry_that_nothing_opens_is_warned_of(folder: Path) -> None:
    task = declare(
        folder,
        '[agent]\nnetwork_mode = "allowlist"\nallowed_hosts = ["a.example", "169.254.169.254", "10.0.0.0/8"]\n'
        '[verifier]\nnetwork_mode = "allowlist"\nallowed_hosts = ["127.0.0.1:80", "localhost"]\n',
    )
    assert task.warnings == (
        "task.toml: agent.allowed_hosts[1]: 169.254.169.254 is a kind of address that nothing opens",
        "task.toml: verifier.allowed_hosts[0]: 127.0.0.1:80 is a kind of address that nothing opens",
        "task.toml: verifier.allowed_hosts[1]: localhost is a kind of address that nothing opens",
    )


def test_canary_comments_do_not_reach_the_agent(folder: Path) -> None:
    text = "<!-- a CANARY string -->\n# canary 12\n\n# Title\n# canary stays here\n"
    (folder / "instruction.md").write_text(text)
    assert load(folder).instruction == "# Title\n# canary stays here\n"


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=400))
def test_load_raises_nothing_but_task_errors_on_any_bytes(folder: Path, data: bytes) -> None:
    (folder / "task.toml").write_bytes(data)
    _load_or_task_error(folder)


_TABLES = [
    "agent",
    "verifier",
    "environment",
    "solution",
    "task",
    "verifier.environment",
    "environment.tpu",
    "steps",
]
_KEYS = [
    "timeout_sec",
    "user",
    "env",
    "network_mode",
    "allowed_hosts",
    "name",
    "mcp_servers",
    "gpus",
    "memory",
    "os",
]
_VALUES = [
    "1",
    "-1",
    "0.5",
    "inf",
    "true",
    "''",
    "'x'",
    "'public'",
    "'*.x.y'",
    "[]",
    "['a']",
    "{}",
    "{ a = 1 }",
]
_lines = st.one_of(
    st.sampled_from(_TABLES).map(lambda name: f"[{name}]"),
    st.sampled_from(_TABLES).map(lambda name: f"[[{name}]]"),
    st.tuples(st.sampled_from(_KEYS), st.sampled_from([*_VALUES, "1979-05-27", '"\\u0000"'])).map(" = ".join),
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(_lines, max_size=8))
def test_load_raises_nothing_but_task_errors_on_any_declaration(folder: Path, lines: list[str]) -> None:
    (folder / "task.toml").write_text("\n".join(lines))
    _load_or_task_error(folder)


def _load_or_task_error(folder: Path) -> None:
    try:
        load(folder, environ={})
    except TaskError as error:
        assert len(str(error).splitlines()) == 1


def test_every_harbor_task_loads() -> None:
    tasks = {path.name: load(path) for path in discover(HARBOR)}
    assert len(tasks) == 9
    assert {name for name, task in tasks.items() if task.unsupported} == {"steps"}
    assert not any(task.warnings for task in tasks.values())


def test_every_example_runs_here_and_has_no_warning() -> None:
    tasks = {path.name: load(path, environ={}) for path in discover(EXAMPLES)}
    assert set(tasks) == {"hello-pass", "multi-user", "no-reward", "serves-http", "sum-fails"}
    for task in tasks.values():
        assert (task.warnings, task.unsupported) == ((), ())
        assert task.solution
        assert (task.path / "README.md").is_file()
    assert (tasks["multi-user"].agent.user, tasks["multi-user"].verifier.user) == ("agent:staff", "root")


def test_discover(folder: Path) -> None:
    dataset = folder.parent
    other = dataset / "another"
    other.mkdir()
    (other / "task.toml").write_text("")
    (dataset / "no-task").mkdir()
    assert discover(folder) == (folder,)
    assert discover(dataset) == (other, folder)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: None, "No such file"),
        (lambda path: path.write_text(""), "Not a directory; give a task folder"),
        (lambda path: path.mkdir(), "holds no task"),
        (lambda path: (path.mkdir(), (path / "task.yaml").write_text("")), "old terminal-bench task"),
    ],
)
def test_discover_says_what_to_do(tmp_path: Path, make: object, says: str) -> None:
    assert callable(make)
    make(tmp_path / "x")
    with pytest.raises(UsageError, match=says):
        discover(tmp_path / "x")


def test_discover_of_the_file_itself(folder: Path) -> None:
    with pytest.raises(UsageError, match="give its folder"):
        discover(folder / "task.toml")


@pytest.mark.parametrize(
    ("include", "exclude", "kept"),
    [
        ([], [], ["one", "other", "two"]),
        (["o*"], [], ["one", "other"]),
        (["o*", "two"], ["other"], ["one", "two"]),
        ([], ["*"], []),
        (["O*"], [], []),
    ],
)
def test_select(include: list[str], exclude: list[str], kept: list[str]) -> None:
    paths = [Path("data") / name for name in ("one", "other", "two")]
    assert [path.name for path in select(paths, include, exclude)] == kept
