"""Benchmarks: how fast Tollbar's processes are beside a peer, on the same real control plane, in the same run.

`python -m benchmarks` (or `make bench`) runs them all; docs/performance.md says what each measures and what came out.
A benchmark never asserts a figure; it fails when it could not measure one.

The processes are started with the end-to-end tests' tools (tests/processes/stack.py), and the objects are made with the
tests' builders, so that what is measured is what is tested.  The line below makes them importable.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
