"""How much memory objects take that a cache keeps."""

import gc
import tracemalloc
from collections.abc import Callable

import orjson

from tollbar.model.objects import Object


def traced(make: Callable[[int], Object], keep: Callable[[Object], None], count: int) -> float:
    """Bytes for each of so many objects, once they have been kept."""
    texts = [orjson.dumps(make(number)) for number in range(count)]
    tracemalloc.start()
    try:
        for text in texts:
            keep(orjson.loads(text))
        gc.collect()
        return tracemalloc.get_traced_memory()[0] / count
    finally:
        tracemalloc.stop()
