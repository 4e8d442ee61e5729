"""Reads and checks traces of ranks for trace.py. A trace is a JSON object in Chrome's trace event format:

displayTimeUnit  "ms", how viewers show times
otherData        object: clock ("measured", or "modelled" and the name of the model), host, processes (number of ranks),
                 process (the rank, if the file holds a single one; a merged file holds all), and dropped (number of
                 operations that were too many to be recorded)
traceEvents      list of objects with name (string), pid (the rank) and tid (0: the host, k: stream k, above the streams:
                 a reader of samples), and with ph:
  "M"  args.name names the process (name: process_name) or the row (thread_name); each row of spans has a name.
       process_sort_index and args.sort_index set the order of the processes in a viewer.
  "X"  a span: ts (begin) and dur, numbers of microseconds that are not negative. cat is host in row 0, read in the row of
       a reader, and kernel, product, copy, collective or wait (the stream waits for an event) in that of a stream. args may hold bytes
       and flops. That of a collective also holds comm (string, the communicator) and number (its place in the
       communicator's order); each pair of both exists once per rank. A send and a receive hold
       neither, so they are not compared between ranks. In a trace of a GPU, all collectives belong to one communicator.
  "s"  the begin of an arrow, at the end of the work that another stream waits for: id, ts, cat event
  "f"  the end of an arrow, where the waiting work begins: the same, and bp "e". Each id has one begin and one end,
       and the end is not earlier.

Spans of a stream or a reader do not overlap. Spans of a host do not either, or lie inside each other. Times are rounded to
nanoseconds, so a difference below 2 ns is none.
"""
import glob
import json
import os
import re
from typing import NamedTuple

COMPUTING = ("kernel", "product", "copy")
ROUNDING = 0.002  # microseconds


class BadTrace(Exception):
    """What is wrong with the input, as a line for the user."""


class Span(NamedTuple):
    name: str
    cat: str
    row: int
    begin: float
    end: float
    args: dict

    def scope(self):
        """The range of the program around the operation, such as "forward 1 dense_relu", or ""."""
        return self.name.rpartition(": ")[0]


class Arrow(NamedTuple):
    row: int
    begin: float
    to_row: int
    end: float


class Rank:
    """The spans and arrows of one rank. Times are in microseconds."""

    def __init__(self, number, path, other):
        self.number, self.path, self.host, self.dropped = number, path, other["host"], other.get("dropped", 0)
        self.spans, self.arrows, self.row_names = [], [], {}

    def shift(self, offset):
        self.spans = [s._replace(begin=s.begin + offset, end=s.end + offset) for s in self.spans]
        self.arrows = [a._replace(begin=a.begin + offset, end=a.end + offset) for a in self.arrows]

    def device_spans(self):
        return [s for s in self.spans if s.cat not in ("host", "read", "wait")]

    def collectives(self):
        return {(s.args["comm"], s.args["number"]): s for s in self.spans if "comm" in s.args}


class Run:
    """All ranks of a run, in order."""

    def __init__(self, ranks, clock):
        self.ranks, self.clock = ranks, clock
        self.modelled = clock.startswith("modelled")


def need(condition, where, text):
    if not condition:
        raise BadTrace(f"{where}: {text}")


def load(path):
    """Returns the JSON object of a file."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        document = json.loads(text)
    except OSError as error:
        raise BadTrace(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadTrace(f"{path}: this is no trace, because it is not text") from None
    except json.JSONDecodeError as error:
        # A decoder that misses the end of a string points at its begin.
        ended = error.pos >= len(text.rstrip()) - 1 or error.msg.startswith("Unterminated string")
        if text.lstrip()[:1] in ("", "{") and ended:
            raise BadTrace(f"{path}: the file ends in the middle, as that of a rank that was killed") from None
        raise BadTrace(f"{path}: this is no trace, because line {error.lineno} is not JSON") from None
    need(isinstance(document, dict) and "traceEvents" in document and "clock" in document.get("otherData", ()), path,
         "this is no trace, because traceEvents or otherData are missing")
    return document


def make_arrows(rank, begins, ends):
    """Joins the begins and ends of arrows, which are dictionaries of events by id."""
    need(begins.keys() == ends.keys(), rank.path, f"an arrow of rank {rank.number} has no begin or no end")
    for key, begin in sorted(begins.items()):
        end = ends[key]
        need(end["ts"] >= begin["ts"] - ROUNDING, rank.path, f"arrow {key} of rank {rank.number} goes back in time")
        rank.arrows.append(Arrow(begin["tid"], begin["ts"], end["tid"], end["ts"]))


def make_rank(number, path, other, events):
    rank, flows = Rank(number, path, other), {"s": {}, "f": {}}
    for event in events:
        kind, args = event["ph"], event.get("args", {})
        if kind == "M" and event["name"] == "thread_name":
            rank.row_names[event["tid"]] = args["name"]
        elif kind == "X":
            rank.spans.append(Span(event["name"], event["cat"], event["tid"], event["ts"], event["ts"] + event["dur"], args))
        elif kind in flows:
            flows[kind][event["id"]] = event
    make_arrows(rank, flows["s"], flows["f"])
    # A call of the host comes before those inside it, and an operation of length 0 before the next one of its stream.
    rank.spans.sort(key=lambda s: (s.row, s.begin, s.end if s.row else -s.end))
    return rank


def read_document(path, document):
    """Returns the ranks in a file: one, or all of a merged file."""
    other, by_rank = document["otherData"], {}
    try:
        if "process" in other:
            by_rank[other["process"]] = []
        for event in document["traceEvents"]:
            by_rank.setdefault(event["pid"], []).append(event)
        return [make_rank(number, path, other, events) for number, events in sorted(by_rank.items())]
    except (KeyError, TypeError, AttributeError) as error:
        raise BadTrace(f"{path}: this is no trace, because an event lacks or misuses a member: {error}") from None


def files_of_ranks(base):
    """Returns the files trace.0.json, trace.1.json, ... for trace.json, in the order of the ranks."""
    stem, suffix = os.path.splitext(base)
    pattern = re.compile(re.escape(stem) + r"\.(\d+)" + re.escape(suffix))
    found = [(int(m.group(1)), m.group(0))
             for m in map(pattern.fullmatch, glob.glob(glob.escape(stem) + ".*" + glob.escape(suffix))) if m]
    return [path for _, path in sorted(found)]


def find_files(names):
    """Returns pairs of a path and its document. A name also stands for the files of its ranks: the last run counts."""
    found = []
    for name in names:
        ranks = files_of_ranks(name)
        if not os.path.exists(name) or ranks and os.path.getmtime(name) < os.path.getmtime(ranks[0]):
            need(ranks, name, "there is no such file, and none of a rank, such as " + "{}.0{}".format(*os.path.splitext(name)))
            first = load(ranks[0])
            # Files of an older run with more ranks may lie beside those of this run.
            others = ranks[1:first["otherData"]["processes"]]
            found += [(ranks[0], first)] + [(path, load(path)) for path in others]
            continue
        found.append((name, load(name)))
    return found


def check_together(ranks, clocks, counts):
    """The files must be those of a single run."""
    for values, what in ((clocks, "clock"), (counts, "number of ranks")):
        first = next(iter(values))
        for path in values:
            need(values[path] == values[first], path,
                 f"the {what} is {values[path]}, but that of {first} is {values[first]}: these files are of different runs")
    count, by_number = next(iter(counts.values())), {}
    for rank in ranks:
        other = by_number.setdefault(rank.number, rank)
        need(other is rank, rank.path, f"{other.path} is of rank {rank.number}, too")
    missing = [number for number in range(count) if number not in by_number]
    if missing:
        raise BadTrace(f"rank {missing[0]} of {count} is missing: name the files of all ranks (a rank that was killed has none)")


def read_run(names):
    files = find_files(names)
    ranks, clocks, counts = [], {}, {}
    for path, document in files:
        ranks += read_document(path, document)
        clocks[path] = document["otherData"]["clock"]
        counts[path] = document["otherData"]["processes"]
    check_together(ranks, clocks, counts)
    return Run(sorted(ranks, key=lambda r: r.number), next(iter(clocks.values())))


def check_rows(rank):
    """Spans of a stream must not overlap, and those of the host must nest. Spans are in the order of their begins."""
    where, inside = f"{rank.path}: rank {rank.number}", []
    for span in rank.spans:
        need(span.row in rank.row_names, where, f"row {span.row} has no name")
        while inside and (inside[-1].row != span.row or inside[-1].end <= span.begin + ROUNDING):
            inside.pop()
        if inside:
            nested = span.row == 0 and span.end <= inside[-1].end + ROUNDING
            need(nested, where, f"{span.name} at {span.begin:.3f} us overlaps {inside[-1].name} at {inside[-1].begin:.3f} us "
                 f"in row {span.row}")
        inside.append(span)
