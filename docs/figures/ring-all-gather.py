"""The second half of ring.py, larger: chunks that are not yet the sum over all ranks are empty."""
import ring


def draw():
    return ring.half(3, "Ring all-gather on four ranks",
                     "Four tables: the state after the reduce-scatter, where each rank holds one chunk of the sum, and "
                     "three rounds. In each round, every rank sends the chunk of the sum that it received last to the "
                     "next rank, which copies it. After round 6, every rank holds all four chunks of the sum.",
                     lambda summed: "sum" if len(summed) == ring.RANKS else "")
