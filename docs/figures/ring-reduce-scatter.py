"""The first half of ring.py, larger: the numbers in a cell are the ranks that are summed in it."""
import ring


def draw():
    return ring.half(0, "Ring reduce-scatter on four ranks",
                     "Four tables: the start and three rounds. In each round, every rank sends one chunk to the next "
                     "rank, which adds it to its own. After round 3, rank 0 holds the sum of chunk b, rank 1 of c, rank 2 "
                     "of d, rank 3 of a.",
                     lambda summed: "sum" if len(summed) == ring.RANKS else "+".join(map(str, sorted(summed))))
