"""The command `cell`: one function per subcommand, in `commands`; errors are one line, and an exit status."""

from __future__ import annotations

import os
import sys

from . import arguments
from .commands import cleaning, completing, entering, granting, looking, network, noting, operating, running
from .errors import CellError
from .plain import plain


def main(argv: list[str] | None = None) -> int:
    """Run one command; 0 done or all graded, 2 a task or usage error, 3 some ungraded or a fault."""
    args = arguments.parser().parse_args(argv)
    try:
        status = _COMMANDS[args.name](args)
        sys.stdout.flush()
        return status
    except CellError as error:
        sys.stderr.write(f"cell: {plain(str(error))}\n")
        return error.exit_status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except KeyboardInterrupt:
        return 130


_COMMANDS = {
    "run": running.run,
    "plan": looking.plan,
    "ls": looking.ls,
    "commands": looking.commands,
    "doctor": looking.doctor,
    "gc": cleaning.gc,
    "label": noting.label,
    "bundle": noting.bundle,
    "stop": operating.stop,
    "keep": operating.keep,
    "grade": operating.grade,
    "pause": operating.pause,
    "continue": operating.resume,
    "finish": operating.finish,
    "egress": network.egress,
    "allow": network.allow,
    "fidelity": network.fidelity,
    "ssh": entering.ssh,
    "attach": entering.attach,
    "connect": entering.relay,
    "grant": granting.grant,
    "completion": completing.completion,
}
