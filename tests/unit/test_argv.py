from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cell.argv import DEFAULT_PATH, User, hosts_file, parse_id_map, phase_environment, resolve_user
from cell.errors import TaskError

PASSWD = b"""root:x:0:0:root:/root:/bin/bash
agent:x:1000:1000:,,,:/home/agent:/bin/sh
bare:x:1001:1001
odd:x:ten:1:::
short:x:1
1234:x:77:78::/home/number:
twice:x:1002:1::/first:
twice:x:1003:2::/second:

huge:x:4294967295:1::/:
# old:x:1009:1009::/:
+::::::
"""
GROUP = b"""root:x:0:
staff:x:50:agent
docker:x:999:other, agent
agent:x:1000:
broken:x:y:agent
60:x:61:
dup:x:50:agent
"""


@pytest.mark.parametrize(
    ("spec", "user"),
    [
        # names
        ("root", User("root", 0, 0, (0,), "/root", "/bin/bash")),
        ("agent", User("agent", 1000, 1000, (1000, 50, 999), "/home/agent", "/bin/sh")),
        ("bare", User("bare", 1001, 1001, (1001,), "/", "/bin/sh")),
        ("twice", User("twice", 1002, 1, (1,), "/first", "/bin/sh")),
        # numbers
        ("", User("root", 0, 0, (0,), "/root", "/bin/bash")),
        ("0", User("root", 0, 0, (0,), "/root", "/bin/bash")),
        ("1000", User("agent", 1000, 1000, (1000, 50, 999), "/home/agent", "/bin/sh")),
        ("4242", User("4242", 4242, 0, (0,), "/", "/bin/sh")),
        ("1009", User("1009", 1009, 0, (0,), "/", "/bin/sh")),
        # a number is an id even where a user has it as name
        ("1234", User("1234", 1234, 0, (0,), "/", "/bin/sh")),
        ("77", User("1234", 77, 78, (78,), "/home/number", "/bin/sh")),
        # an explicit group is the only one
        ("agent:staff", User("agent", 1000, 50, (50,), "/home/agent", "/bin/sh")),
        ("agent:50", User("agent", 1000, 50, (50,), "/home/agent", "/bin/sh")),
        ("agent:60", User("agent", 1000, 60, (60,), "/home/agent", "/bin/sh")),
        ("4242:4343", User("4242", 4242, 4343, (4343,), "/", "/bin/sh")),
        (":staff", User("root", 0, 50, (50,), "/root", "/bin/bash")),
        ("agent:", User("agent", 1000, 1000, (1000, 50, 999), "/home/agent", "/bin/sh")),
    ],
)
def test_resolve_user(spec: str, user: User) -> None:
    assert resolve_user(spec, PASSWD, GROUP) == user


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("nobody", 'no user "nobody" in /etc/passwd'),
        ("odd", 'no user "odd"'),
        ("Agent", 'no user "Agent"'),
        (" agent", 'no user " agent"'),
        ("1_000", 'no user "1_000"'),
        ("\x1b[31m", 'no user "␛[31m"'),
        ("agent:wheel", 'no group "wheel" in /etc/group'),
        ("agent:broken", 'no group "broken"'),
        ("-1", "the user id must be from 0 to 2147483647"),
        ("2147483648", "the user id"),
        ("9" * 5000, "the user id"),
        ("agent:-5", "the group id must be from 0 to 2147483647"),
    ],
)
def test_a_user_that_is_not_there_is_named(spec: str, says: str) -> None:
    with pytest.raises(LookupError) as caught:
        resolve_user(spec, PASSWD, GROUP)
    assert says in str(caught.value)


def test_without_any_files_numbers_still_work() -> None:
    assert resolve_user("", b"", b"") == User("root", 0, 0, (0,), "/", "/bin/sh")
    assert resolve_user("5:6", b"", b"") == User("5", 5, 6, (6,), "/", "/bin/sh")


@given(st.text(max_size=20), st.binary(max_size=200), st.binary(max_size=200))
def test_resolve_user_raises_only_lookup_errors(spec: str, passwd: bytes, group: bytes) -> None:
    try:
        user = resolve_user(spec, passwd, group)
    except LookupError:
        return
    assert all(0 <= number < 1 << 31 for number in (user.uid, user.gid, *user.groups))


def environment(
    *sources: dict[str, str], term: str | None = None, extra: dict[str, str] | None = None
) -> dict[str, str]:
    image, task, phase = [*sources, {}, {}, {}][:3]
    return phase_environment(image, task, phase, home="/home/x", user="x", term=term, extra=extra or {})


BARE = {"PATH": DEFAULT_PATH, "HOME": "/home/x"}


def test_the_environment_is_exact() -> None:
    assert environment() == BARE


@pytest.mark.parametrize(
    ("sources", "result"),
    [
        (({"PATH": "/opt/bin"},), {"PATH": "/opt/bin"}),
        (({"A": "image"}, {"A": "task"}), {"A": "task"}),
        (({"A": "image"}, {"A": "task"}, {"A": "phase"}), {"A": "phase"}),
        (({}, {"HOME": "/data"}), {"HOME": "/data"}),
        (({"TERM": "dumb"},), {"TERM": "dumb"}),
        # whatever its name
        (({}, {"LD_PRELOAD": "x", "a b": "", "BASH_FUNC_f%%": "() { :; }", "ü": "ü"}), None),
    ],
)
def test_later_sources_win(sources: tuple[dict[str, str], ...], result: dict[str, str] | None) -> None:
    assert environment(*sources) == BARE | (sources[1] if result is None else result)


def test_term_only_with_a_terminal_and_only_if_not_declared() -> None:
    assert environment(term="xterm") == BARE | {"TERM": "xterm"}
    assert environment({"TERM": "dumb"}, term="xterm") == BARE | {"TERM": "dumb"}


def test_what_the_caller_passes_comes_last() -> None:
    passed = {"HOME": "/h", "TERM": "t", "PATH": "/p", "A": "1"}
    assert environment({"A": "0"}, term="xterm", extra=passed) == passed


def test_pairs_are_taken_as_well_as_mappings() -> None:
    found = phase_environment([("A", "1"), ("A", "2")], (), (), home="/", user="root")
    assert found == {"PATH": DEFAULT_PATH, "A": "2", "HOME": "/"}


@pytest.mark.parametrize(("name", "value"), [("", "x"), ("A=B", "x"), ("A\0", "x"), ("A", "x\0y")])
def test_a_variable_that_no_process_can_have_is_a_task_error(name: str, value: str) -> None:
    for position in range(3):
        sources = [{}, {}, {}]
        sources[position] = {name: value}
        with pytest.raises(TaskError, match="environment of x"):
            environment(*sources)
    with pytest.raises(TaskError):
        environment(extra={name: value})


def test_hosts_file() -> None:
    lines = hosts_file("box").decode().splitlines()
    assert lines[0] == "127.0.0.1\tlocalhost"
    assert lines[-1] == "127.0.0.1\tbox"
    assert hosts_file("localhost").count(b"127.0.0.1") == 1


@pytest.mark.parametrize("name", ["", "a b", "a\nb", "-a", "x" * 65, "ü"])
def test_hosts_file_refuses_what_is_no_host_name(name: str) -> None:
    with pytest.raises(ValueError, match="not a host name"):
        hosts_file(name)


def test_parse_id_map() -> None:
    assert parse_id_map("         0          0 4294967295\n") == ((0, 0, 4294967295),)
    assert parse_id_map("0 1000 1\n1 100000 65536\n") == ((0, 1000, 1), (1, 100000, 65536))
    assert parse_id_map("") == ()


@pytest.mark.parametrize("text", ["0 0", "0 0 x", "0 0 1 1", "-1 0 1", "\n0 0 1"])
def test_parse_id_map_refuses_the_rest(text: str) -> None:
    with pytest.raises(ValueError, match="not a line of an id map"):
        parse_id_map(text)
