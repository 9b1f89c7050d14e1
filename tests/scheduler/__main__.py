"""Compare with kube-scheduler by hand: `python -m scheduler`, in this directory's parent.

It prints how many Pods were compared, and a small example of each kind of difference.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

from scheduler.clusters import FAMILIES, cluster, clusters
from scheduler.comparing import Difference, available, differences, shrunk, theirs
from scheduler.differences import explained
from scheduler.world import DEFAULT_PROFILE

from tollbar.devplane.real.build import locate
from tollbar.devplane.real.oracle import Oracle


def main() -> None:
    parser = argparse.ArgumentParser(prog="scheduler", description=__doc__.partition("\n")[0])
    parser.add_argument("--family", choices=list(FAMILIES), help="clusters of this family alone")
    parser.add_argument("--plugins", default="", help="names separated by commas; else all that there are")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--show", type=int, default=3, help="so many kinds of differences are shrunk")
    parser.add_argument("--binary", type=Path, help="the control plane's binary, else it is built")
    given = parser.parse_args()
    oracle = Oracle((str(given.binary), "oracle")) if given.binary else Oracle.of(locate())
    wanted = set(given.plugins.split(",")) if given.plugins else set(available())
    plugins = [name for name in DEFAULT_PROFILE if name in wanted]
    if given.family:
        batch = [cluster(given.family, given.seed + number) for number in range(given.count)]
        for each in batch:
            each.limit(plugins)
    else:
        batch = list(clusters(given.seed, given.count, plugins=plugins))
    answers = theirs(oracle, batch)
    found = [each for each in differences(batch, answers) if explained(each) is None]
    pods = sum(map(len, answers))
    print(f"{pods} Pods, {len(found)} unknown differences with {', '.join(plugins)}")  # noqa: T201
    kinds: dict[tuple[str, str], list[Difference]] = {}
    for each in found:
        kinds.setdefault(each.kind, []).append(each)
    for kind, several in sorted(kinds.items(), key=lambda item: -len(item[1]))[: given.show]:
        families = Counter(each.cluster.family for each in several)
        print(f"\n{' '.join(kind)}: {len(several)} times, {dict(families)}\n{shrunk(oracle, several[0])}")  # noqa: T201
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
