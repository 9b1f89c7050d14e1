"""What Kubernetes itself answers, to compare with: `oracle` of the control plane's binary.

One process answers a batch, so that its start is paid once.  In gomodule, oracle.go, allocate.go, hints.go, queue.go
and schedule.go define requests and answers.
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
    """Kubernetes' CEL environments, allocator of devices, scheduler and queue, of the version of the binary."""

    command: tuple[str, ...]

    @classmethod
    def of(cls, binaries: Binaries) -> "Oracle":
        """Raises BuildError for a directory of binaries, which has no oracle."""
        return cls(tuple(binaries.command("oracle")))

    def evaluate(self, requests: Iterable[Object]) -> list[Object]:
        """The answers to CEL expressions, in their order: `outcome` is value, error or compile_error.

        A request has an `expression` and either `variables` (types by name) and `inputs`, or a `device`; `typed` asks
        for the kinds of nested values, `repeat` for nanoseconds per evaluation.  Raises OracleError.
        """
        return self._ask("cel", requests)

    def allocate(self, requests: Iterable[Object]) -> list[Object]:
        """The answers to scheduling cycles, in their order: `nodes` with an answer for each Node, or a `message`.

        A request has `nodes`, `claims` to allocate, `classes`, `slices`, and `allocated` claims that hold devices;
        `features` are by the names of Go's fields, `timeoutSeconds` is for one Node, and `repeat` asks for nanoseconds
        of CPU time per Node.  An answer for a Node has an `outcome` (allocated, none or error), `results` of all claims
        or a `message`, and `steps`.  Raises OracleError.
        """
        return self._ask("allocate", requests)

    def schedule(self, requests: Iterable[Object]) -> list[Object]:
        """The answers to clusters with waiting Pods, in their order: `pods` with an answer for each, or a `message`.

        A request has `objects` of all kinds that kube-scheduler watches and a KubeSchedulerConfiguration as
        `configuration`; `pods` names the Pods to schedule (namespace/name), which are otherwise all without a Node.
        Each is scheduled as if it were the only one, and nothing comes of it.

        An answer for a Pod has an `outcome` (scheduled, unschedulable or error), the answers of `preFilter` and of the
        filters for all `nodes`, raw and weighted `scores` with their total, the `best` Nodes, and for a Pod that does
        not fit a `message`, `rejectors`, `postFilter` and the `candidates` of preemption, of which `bestOfCandidates`
        are the best.  Raises OracleError.
        """
        return self._ask("schedule", requests)

    def hints(self, requests: Iterable[Object]) -> list[Object]:
        """The answers of all plugins' queueing hints, in their order: `events` with a list for each, or a `message`.

        A request has `objects` and a `configuration` as for `schedule`, a `pod` that has been rejected, and `events`
        with `resource`, `action`, `old` and `new`.  In the list are `plugin` and `hint` for each registration of a
        plugin that the event matches.  Raises OracleError.
        """
        return self._ask("hints", requests)

    def queue(self, requests: Iterable[Object]) -> list[Object]:
        """The answers to traces of kube-scheduler's queue, in their order: `states` after each step, or a `message`.

        A request has `profiles` of plugins, `initialBackoff`, `maxBackoff` and `flush` in seconds, and `steps`;
        `preQueueingHints` turns that gate on.  Raises OracleError.
        """
        return self._ask("queue", requests)

    def _ask(self, what: str, requests: Iterable[Object]) -> list[Object]:
        lines = [json.dumps(request) for request in requests]
        command = (*self.command, what)
        done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=False)
        answers = [line for line in done.stdout.split("\n") if line]
        if done.returncode or len(answers) != len(lines):
            raise OracleError(f"{len(answers)} answers to {len(lines)} requests: {done.stderr.strip()[-500:]}")
        return [json.loads(line) for line in answers]
