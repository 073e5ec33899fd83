from __future__ import annotations

import json
import os
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cell import records
from cell.errors import HarnessError
from cell.rewards import RewardFault, Rewards, copy_tree, read_ctrf, read_rewards

FIXTURES = Path(__file__).parents[1] / "fixtures/harbor-0.25.0/jobs/demo-oracle"


@pytest.fixture
def box(tmp_path: Path) -> Path:
    (tmp_path / "box").mkdir()
    return tmp_path / "box"


@pytest.fixture
def fd(box: Path) -> Iterator[int]:
    fd = os.open(box, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


# ── rewards ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("file", "text", "values"),
    [
        ("reward.txt", "1", {"reward": 1.0}),
        ("reward.txt", " 0.25\n", {"reward": 0.25}),
        ("reward.txt", "-1e-3\r\n", {"reward": -0.001}),
        ("reward.json", '{"reward": 0.5, "style": 1}', {"reward": 0.5, "style": 1}),
        ("reward.json", '{"a": 2}', {"a": 2}),
        ("reward.json", f'{{"big": {10**30}}}', {"big": 1e30}),
        ("reward.json", '{"\\ud800": 1}', {"\\ud800": 1}),
    ],
)
def test_a_number_is_a_reward(box: Path, fd: int, file: str, text: str, values: dict[str, float]) -> None:
    (box / file).write_text(text)
    assert read_rewards(fd) == Rewards(values=values, file=file)


def test_integers_stay_integers(box: Path, fd: int) -> None:
    (box / "reward.json").write_text('{"reward": 1, "x": 1.0}')
    got = read_rewards(fd)
    assert isinstance(got, Rewards)
    assert [type(value) for value in got.values.values()] == [int, float]


@pytest.mark.parametrize(
    ("file", "data"),
    [
        ("reward.txt", b"nan"),
        ("reward.txt", b"inf"),
        ("reward.txt", b"-Infinity"),
        ("reward.txt", b"1e999"),
        ("reward.txt", b"one"),
        ("reward.txt", b"1 0"),
        ("reward.txt", b"1_0"),
        ("reward.txt", b" \n"),
        ("reward.txt", b"\xff\xfe1"),
        ("reward.txt", b"1\x00"),
        ("reward.txt", b"\x1b[31m" * 1000),
        ("reward.json", b"1.0"),
        ("reward.json", b"[1.0]"),
        ("reward.json", b"{}"),
        ("reward.json", b"null"),
        ("reward.json", b'{"reward": true}'),
        ("reward.json", b'{"reward": null}'),
        ("reward.json", b'{"reward": "1"}'),
        ("reward.json", b'{"reward": NaN}'),
        ("reward.json", b'{"reward": Infinity}'),
        ("reward.json", b'{"reward": 1e999}'),
        ("reward.json", b'{"reward": 1' + b"0" * 400 + b"}"),
        ("reward.json", b'{"reward": 1' + b"0" * 9000 + b"}"),
        ("reward.json", b'{"reward": {"score": 1}}'),
        ("reward.json", b'{"reward": 1, "other": "x"}'),
        ("reward.json", b'{"reward": 1'),
        ("reward.json", b"[" * 200_000),
        ("reward.json", b"\xff"),
    ],
)
def test_what_is_not_one_finite_number_is_a_parse_error(box: Path, fd: int, file: str, data: bytes) -> None:
    (box / file).write_bytes(data)
    got = read_rewards(fd)
    assert isinstance(got, RewardFault)
    assert got.name == "VerifierOutputParseError"
    assert file in got.message
    assert len(got.message) < 400


def test_nothing_written_and_an_empty_file_have_harbors_names(box: Path, fd: int) -> None:
    assert read_rewards(fd) == RewardFault(
        name="RewardFileNotFoundError",
        message="No reward file found: the verifier wrote neither reward.txt nor reward.json",
    )
    (box / "reward.txt").touch()
    assert read_rewards(fd) == RewardFault(
        name="RewardFileEmptyError", message="Reward file is empty: reward.txt"
    )


def test_reward_json_comes_first_even_when_it_is_wrong(box: Path, fd: int) -> None:
    (box / "reward.txt").write_text("1")
    (box / "reward.json").write_text('{"reward": 0}')
    assert read_rewards(fd) == Rewards(values={"reward": 0}, file="reward.json")
    (box / "reward.json").write_text("garbage")
    assert isinstance(read_rewards(fd), RewardFault)
    (box / "reward.json").write_text("")
    got = read_rewards(fd)
    assert isinstance(got, RewardFault)
    assert got.name == "RewardFileEmptyError"


def test_the_near_miss_is_noted(box: Path, fd: int) -> None:
    (box / "rewards.json").write_text('{"reward": 1}')
    got = read_rewards(fd)
    assert isinstance(got, RewardFault)
    assert "reward.json" in got.notes[0]


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def unix_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def link_to(target: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        (path.parent.parent / "planted").write_text('{"reward": 1, "results": {"tests": []}}')
        path.symlink_to(target)

    return make


HOSTILE: dict[str, Callable[[Path], None]] = {
    "a FIFO": os.mkfifo,
    "a directory": Path.mkdir,
    "a socket": unix_socket,
    "a link out": link_to("../planted"),
    "a dangling link": link_to("nowhere"),
    "a link to itself": link_to("reward.json"),
    "a link to a device": link_to("/dev/zero"),
    "a sparse terabyte": sparse,
    "one byte too many": lambda path: path.write_bytes(b" " * ((1 << 20) + 1)) and None,
}


@pytest.mark.parametrize("file", ["reward.json", "reward.txt"])
@pytest.mark.parametrize("what", HOSTILE)
def test_attack_34_what_is_no_small_regular_file_is_refused(box: Path, fd: int, what: str, file: str) -> None:
    HOSTILE[what](box / file)
    got = read_rewards(fd)
    assert isinstance(got, RewardFault)
    assert got.name == "VerifierOutputParseError"


@pytest.mark.parametrize("what", [what for what in HOSTILE if what != "one byte too many"])
def test_attack_34_the_same_for_the_report_of_tests(box: Path, fd: int, what: str) -> None:
    HOSTILE[what](box / "ctrf.json")
    notes: list[str] = []
    assert read_ctrf(fd, notes) == ()
    assert notes[0].startswith("ctrf.json is not used: it ")


def test_a_descriptor_that_is_no_directory_is_the_harnesss_fault(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    fd = os.open(tmp_path / "file", os.O_RDONLY)
    with pytest.raises(HarnessError):
        read_rewards(fd)
    with pytest.raises(HarnessError):
        copy_tree(fd, tmp_path / "out", max_bytes=1, max_files=1)
    os.close(fd)


def test_harbors_own_verifier_folders_read_as_harbor_read_them() -> None:
    for trial in FIXTURES.glob("*/verifier"):
        result = json.loads((trial.parent / "result.json").read_text())
        fd = os.open(trial, os.O_PATH | os.O_DIRECTORY)
        got = read_rewards(fd)
        os.close(fd)
        if isinstance(got, Rewards):
            assert result["verifier_result"]["rewards"] == got.values
        elif result["exception_info"]["exception_type"] != "VerifierTimeoutError":
            assert result["exception_info"]["exception_type"] == got.name


# ── per-test results ──────────────────────────────────────────────────────────────────────────


def test_ctrf_gives_names_statuses_messages_and_durations(fd: int, box: Path) -> None:
    tests = [
        {"name": "a", "status": "passed", "duration": 12},
        {"name": "b", "status": "Failed", "message": "boom", "duration": True, "trace": "…"},
        {"name": "c", "status": "skipped", "message": 7, "duration": float("inf")},
        {"name": "\ud800", "status": "failed", "duration": -1},
        {"name": 7, "status": "passed"},
        "x",
    ]
    (box / "ctrf.json").write_text(json.dumps({"results": {"tests": tests}}))
    notes: list[str] = []
    assert read_ctrf(fd, notes) == (
        records.TestResult(name="a", status="passed", ms=12.0),
        records.TestResult(name="b", status="failed", message="boom"),
        records.TestResult(name="c", status="skipped"),
        records.TestResult(name="\\ud800", status="failed"),
    )
    assert notes == ["ctrf.json has 2 tests without a name or a status"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "1", '{"results": []}', '{"results": {"tests": {}}}', "[" * 99999]
)
def test_ctrf_that_is_garbage_is_no_tests_and_a_note(box: Path, fd: int, text: str) -> None:
    (box / "ctrf.json").write_text(text)
    notes: list[str] = []
    assert read_ctrf(fd, notes) == ()
    assert len(notes) == 1
    assert read_ctrf(fd) == ()


def test_ctrf_absent_is_no_note(fd: int) -> None:
    notes: list[str] = []
    assert read_ctrf(fd, notes) == ()
    assert notes == []


def test_ctrf_is_capped(box: Path, fd: int) -> None:
    tests = [{"name": "n" * 5000, "status": "passed", "message": "m" * 9000}]
    tests += [{"name": str(n), "status": "passed"} for n in range(10_500)]
    (box / "ctrf.json").write_text(json.dumps({"results": {"tests": tests}}))
    notes: list[str] = []
    got = read_ctrf(fd, notes)
    assert len(got) == 10_000
    assert (len(got[0].name), len(got[0].message)) == (500, 4000)
    assert notes == ["ctrf.json has 10501 tests; the first 10000 are kept"]


# ── copying ───────────────────────────────────────────────────────────────────────────────────


def copied(
    fd: int, tmp_path: Path, max_bytes: int = 1 << 20, max_files: int = 1000
) -> tuple[Path, tuple[str, ...]]:
    dest = tmp_path / "out" / "verifier"
    return dest, copy_tree(fd, dest, max_bytes=max_bytes, max_files=max_files)


def test_files_and_folders_are_copied(box: Path, fd: int, tmp_path: Path) -> None:
    (box / "a" / "b").mkdir(parents=True)
    (box / "a" / "b" / "c.txt").write_text("c")
    (box / "run.sh").write_text("x")
    (box / "run.sh").chmod(0o6777)
    os.utime(box / "run.sh", (1, 1))
    (box / os.fsdecode(b"\xff")).write_text("odd")
    dest, notes = copied(fd, tmp_path)
    assert notes == ()
    assert (dest / "a/b/c.txt").read_text() == "c"
    assert (dest / os.fsdecode(b"\xff")).read_text() == "odd"
    status = (dest / "run.sh").stat()
    assert (stat.S_IMODE(status.st_mode) & 0o7000, status.st_mtime) == (0, 1)
    assert status.st_mode & stat.S_IXUSR
    assert not (dest / "a/b/c.txt").stat().st_mode & stat.S_IXUSR
    assert copied(fd, tmp_path)[1] == ()


def test_attack_34_links_fifos_and_sockets_are_not_copied(box: Path, fd: int, tmp_path: Path) -> None:
    os.mkfifo(box / "fifo")
    unix_socket(box / "sock")
    (box / "link").symlink_to("/etc/passwd")
    (box / "dir").symlink_to("/etc")
    sparse(box / "huge")
    (box / "fine").write_text("fine")
    dest, notes = copied(fd, tmp_path)
    assert [path.name for path in dest.iterdir()] == ["fine"]
    assert sorted(note.split(",")[0] for note in notes) == [
        "dir: a symbolic link",
        "fifo: a FIFO",
        "huge: 1099511627776 bytes",
        "link: a symbolic link",
        "sock: a socket",
    ]


def test_attack_34_many_names_and_many_bytes_stop_at_the_caps(box: Path, fd: int, tmp_path: Path) -> None:
    for n in range(300):
        (box / str(n)).write_text("0123456789")
    dest, notes = copied(fd, tmp_path, max_files=100)
    assert len(list(dest.iterdir())) == 100
    assert notes == (".: stopped after 100 names",)
    for path in dest.iterdir():
        path.unlink()
    dest, notes = copied(fd, tmp_path, max_bytes=55)
    assert len(list(dest.iterdir())) == 5
    assert len(notes) == 51
    assert notes[-1] == "and 245 more were left out"


def test_attack_34_a_deep_tree_ends(box: Path, fd: int, tmp_path: Path) -> None:
    inner = fd
    opened = []
    for _ in range(300):
        os.mkdir("d", dir_fd=inner)
        inner = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=inner)
        opened.append(inner)
    for fd_ in opened:
        os.close(fd_)
    _, notes = copied(fd, tmp_path)
    assert len(notes) == 1
    assert "deeper than 64 folders" in notes[0]


def test_a_link_planted_where_the_copy_goes_is_not_followed(box: Path, fd: int, tmp_path: Path) -> None:
    (box / "f").write_text("new")
    (box / "d").mkdir()
    (box / "d" / "x").write_text("x")
    (tmp_path / "victim").write_text("old")
    (tmp_path / "folder").mkdir()
    dest = tmp_path / "out" / "verifier"
    dest.mkdir(parents=True)
    (dest / "f").symlink_to(tmp_path / "victim")
    (dest / "d").symlink_to(tmp_path / "folder")
    _, notes = copied(fd, tmp_path)
    assert (tmp_path / "victim").read_text() == "old"
    assert (dest / "f").read_text() == "new"
    assert list((tmp_path / "folder").iterdir()) == []
    assert notes == ("d: not copied: Not a directory",)


def test_no_descriptor_is_left_open(box: Path, fd: int, tmp_path: Path) -> None:
    for what, make in HOSTILE.items():
        make(box / what)
    (box / "reward.json").mkdir()
    before = os.listdir("/proc/self/fd")
    read_rewards(fd)
    read_ctrf(fd)
    copied(fd, tmp_path)
    assert os.listdir("/proc/self/fd") == before
