"""Child processes that are ready at once: forks of one that has already imported what takes long.

Each is a process of its own, with its own pipes, signals and exit code; only the imports are shared.
"""

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from typing import Self

_SERVE = """
def _serve():
    import gc, os, socket
    gc.freeze()
    control = socket.socket(fileno=os.dup(0))
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    while True:
        body, pipes, _, _ = socket.recv_fds(control, 2**16, 2)
        if not body:
            os._exit(0)
        if (pid := os.fork()) == 0:
            control.close()
            for number, pipe in enumerate(pipes, start=1):
                os.dup2(pipe, number)
                os.close(pipe)
            return body
        for pipe in pipes:
            os.close(pipe)
        control.sendall(b"%d\\n" % pid)
        control.sendall(b"%d\\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

exec(_serve())
"""


class Child:
    """A running child.  As a context it is killed when the block fails, and its pipes are closed."""

    def __init__(self, pid: int, output: int, errors: int) -> None:
        self.pid = pid
        self.output = os.fdopen(output)
        self.errors = os.fdopen(errors)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        self.output.close()
        self.errors.close()


class Children:
    """The process that all are forks of, after it has run `prelude`; one child at a time."""

    def __init__(self, prelude: str) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._parent = subprocess.Popen(
                [sys.executable, "-c", prelude + _SERVE],
                stdin=theirs,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
        self._control = ours
        self._answers = ours.makefile()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._answers.close()
        self._control.close()
        self._parent.wait()

    def start(self, body: str) -> Child:
        """Run `body` after the prelude, in a child."""
        output, errors = os.pipe(), os.pipe()
        socket.send_fds(self._control, [body.encode()], [output[1], errors[1]])
        os.close(output[1])
        os.close(errors[1])
        return Child(int(self._answers.readline()), output[0], errors[0])

    def exit_code(self) -> int:
        """How the last child ended, negative for a signal; waits for its end."""
        return int(self._answers.readline())
