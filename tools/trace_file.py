"""Reads and checks traces of ranks for trace.py. A trace is a JSON object in Chrome's trace event format:

displayTimeUnit  "ms", how viewers show times
otherData        object: clock ("measured", or "modelled" and the name of the model), host, processes (number of ranks),
                 process (the rank, if the file holds a single one; a merged file holds all), and dropped (number of
                 operations that were too many to be recorded)
traceEvents      list of objects with name (string), pid (the rank) and tid (0: the host, k: stream k), and with ph:
  "M"  args.name names the process (name: process_name) or the row (thread_name); each row of spans has a name.
       process_sort_index and args.sort_index set the order of the processes in a viewer.
  "X"  a span: ts (begin) and dur, numbers of microseconds that are not negative. cat is host in row 0, and kernel,
       product, copy, collective or wait (the stream waits for an event) in the row of a stream. args may hold bytes
       and flops. That of a collective also holds comm (string, the communicator) and number (its place in the
       communicator's order); each pair of both exists once per rank. A send and a receive hold
       neither, so they are not compared between ranks. In a trace of a GPU, all collectives belong to one communicator.
  "s"  the begin of an arrow, at the end of the work that another stream waits for: id, ts, cat event
  "f"  the end of an arrow, where the waiting work begins: the same, and bp "e". Each id has one begin and one end,
       and the end is not earlier.

Spans of a stream do not overlap. Spans of a host do not either, or lie inside each other. Times are rounded to
nanoseconds, so a difference below 2 ns is none.
"""
import glob
import json
import math
import os
import re
from typing import NamedTuple

COMPUTING = ("kernel", "product", "copy")
CATEGORIES = COMPUTING + ("collective", "wait")
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
        return [s for s in self.spans if s.row > 0 and s.cat != "wait"]

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


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def is_count(value):
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


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
    need(isinstance(document, dict) and isinstance(document.get("traceEvents"), list), path,
         "this is no trace, because traceEvents is missing")
    return document


def check_header(path, document):
    other = document.get("otherData")
    need(document.get("displayTimeUnit") == "ms", path, 'displayTimeUnit must be "ms"')
    need(isinstance(other, dict), path, "otherData must be an object")
    for key in ("clock", "host"):
        need(isinstance(other.get(key), str), path, f"otherData.{key} must be a string")
    for key in ("processes", "process", "dropped"):
        need(is_count(other.get(key, 0)), path, f"otherData.{key} must be a whole number")
    need(re.fullmatch(r"measured|modelled .+", other["clock"]), path,
         f'otherData.clock is "{other["clock"]}", not "measured" or "modelled" and a name')
    need(other.get("process", 0) < other.get("processes", 0), path, "otherData.process must be below otherData.processes")


def check_span(event, where):
    for key in ("ts", "dur"):
        need(is_number(event.get(key)), where, f"{key} must be a number")
        need(event[key] >= 0, where, f"{key} is negative")
    wanted = CATEGORIES if event["tid"] else ("host",)
    need(event.get("cat") in wanted, where, f"cat in row {event['tid']} must be one of: {' '.join(wanted)}")
    args = event.get("args", {})
    need(isinstance(args, dict), where, "args must be an object")
    for key in ("bytes", "flops"):
        need(is_number(args.get(key, 0)) and args.get(key, 0) >= 0, where, f"args.{key} must be a number from 0 on")
    if "comm" in args:
        need(isinstance(args.get("comm"), str), where, "args.comm of a collective must be a string")
        need(is_count(args.get("number")), where, "args.number of a collective must be a whole number")


def check_event(event, where, other):
    """Checks the fields of one event."""
    need(isinstance(event, dict), where, "an event must be an object")
    kind = event.get("ph")
    need(kind in ("M", "X", "s", "f"), where, "ph must be one of: M X s f")
    need(isinstance(event.get("name"), str), where, "name must be a string")
    for key in ("pid", "tid"):
        need(is_count(event.get(key)), where, f"{key} must be a whole number")
    need(event["pid"] < other["processes"], where, f"pid must be a rank below {other['processes']}")
    need(event["pid"] == other.get("process", event["pid"]), where, "pid must be the rank of the file")
    if kind == "M":
        field, kind_of_value = ("sort_index", int) if event["name"].endswith("_sort_index") else ("name", str)
        args = event.get("args")
        need(isinstance(args, dict) and isinstance(args.get(field), kind_of_value), where, f"args.{field} is missing")
    elif kind == "X":
        check_span(event, where)
    else:
        need(is_number(event.get("ts")) and event["ts"] >= 0, where, "ts must be a number from 0 on")
        need(is_count(event.get("id")), where, "id must be a whole number")
        need(event.get("cat") == "event", where, "cat of an arrow must be event")
        need(event["tid"] > 0, where, "an arrow leads from stream to stream, so its tid is above 0")
        need(kind == "s" or event.get("bp") == "e", where, 'bp of the end of an arrow must be "e"')


def make_arrows(rank, begins, ends, where):
    """Joins the begins and ends of arrows, which are dictionaries of events by id."""
    for key in sorted(set(begins) | set(ends)):
        need(key in ends, where, f"arrow {key} of rank {rank.number} has no end")
        need(key in begins, where, f"arrow {key} of rank {rank.number} has no begin")
        begin, end = begins[key], ends[key]
        need(end["ts"] >= begin["ts"] - ROUNDING, where, f"arrow {key} of rank {rank.number} goes back in time")
        rank.arrows.append(Arrow(begin["tid"], begin["ts"], end["tid"], end["ts"]))


def make_rank(number, path, other, events):
    """events: pairs of a text that names the event's place, and the event."""
    rank, flows, seen = Rank(number, path, other), {"s": {}, "f": {}}, set()
    for where, event in events:
        kind, args = event["ph"], event.get("args", {})
        if kind == "M" and event["name"] == "thread_name":
            rank.row_names[event["tid"]] = args["name"]
        elif kind == "X":
            span = Span(event["name"], event["cat"], event["tid"], event["ts"], event["ts"] + event["dur"], args)
            rank.spans.append(span)
            if "comm" in args:
                key = (args["comm"], args["number"])
                need(key not in seen, where, f"rank {number} has collective {key[1]} of communicator {key[0]} twice")
                seen.add(key)
        elif kind in flows:
            need(event["id"] not in flows[kind], where, f"arrow {event['id']} has two {'begins' if kind == 's' else 'ends'}")
            flows[kind][event["id"]] = event
    make_arrows(rank, flows["s"], flows["f"], path)
    # A call of the host comes before those inside it, and an operation of length 0 before the next one of its stream.
    rank.spans.sort(key=lambda s: (s.row, s.begin, s.end if s.row else -s.end))
    return rank


def read_document(path, document):
    """Returns the ranks in a file: one, or all of a merged file."""
    check_header(path, document)
    other, by_rank = document["otherData"], {}
    if "process" in other:
        by_rank[other["process"]] = []
    for i, event in enumerate(document["traceEvents"]):
        name = event.get("name") if isinstance(event, dict) else None
        where = f"{path}: event {i}" + (f" ({name})" if isinstance(name, str) else "")
        check_event(event, where, other)
        by_rank.setdefault(event["pid"], []).append((where, event))
    return [make_rank(number, path, other, events) for number, events in sorted(by_rank.items())]


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
            check_header(ranks[0], first)
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


def check_run(run):
    """The checks of --check that reading has not done."""
    for rank in run.ranks:
        check_rows(rank)
        need(any(rank.device_spans()), rank.path, f"rank {rank.number} has no operation on a stream")
