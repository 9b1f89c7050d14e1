"""Benchmarks: how fast Tollbar's processes are beside a peer, on the same real control plane, in the same run.

`python -m benchmarks` (or `make bench`) runs them all; docs/performance.md says what each measures and what came out.
A benchmark never asserts: it refuses to report what it did not measure, and reports everything else.

The processes are run by what the end-to-end tests run them with (tests/stack.py), and the objects are written with the
tests' builders, so that what is measured is what is tested.  Hence the one line below; nothing of it is installed.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
