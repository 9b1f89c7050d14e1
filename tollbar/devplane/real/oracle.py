"""What Kubernetes' own CEL answers to expressions, to compare with: `oracle cel` of the control plane's binary.

One process answers a batch, so that its start is paid once.  gomodule/oracle.go defines requests and answers.
"""

import json
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass

from tollbar.devplane.binaries import Binaries
from tollbar.model.objects import Object


class OracleError(Exception):
    """The oracle did not answer; the message is what it printed to stderr."""


@dataclass(frozen=True, slots=True)
class Oracle:
    """Kubernetes' CEL environments, of the version of the binary."""

    command: tuple[str, ...]

    @classmethod
    def of(cls, binaries: Binaries) -> "Oracle":
        """Raises BuildError for a directory of binaries, which has no oracle."""
        return cls((*binaries.command("oracle"), "cel"))

    def ask(self, requests: Iterable[Object]) -> list[Object]:
        """The answers, in the order of the requests: `outcome` is value, error or compile_error.

        A request has an `expression` and either `variables` (types by name) and `inputs`, or a `device`; `typed` asks
        for the kinds of nested values, `repeat` for nanoseconds per evaluation.  Raises OracleError.
        """
        lines = [json.dumps(request) for request in requests]
        done = subprocess.run(self.command, input="\n".join(lines), capture_output=True, text=True, check=False)
        answers: list[Object] = [json.loads(line) for line in done.stdout.splitlines()]
        if done.returncode or len(answers) != len(lines):
            raise OracleError(f"{len(answers)} answers to {len(lines)} requests: {done.stderr.strip()[-500:]}")
        return answers
