#!/usr/bin/env python3
"""Reads the traces that a step writes with --trace trace.json, and prints for each rank how long it computes, how much of
its communication is hidden behind computing, how long it is idle, and which rank the others wait for. FILE... are
the files of all ranks, trace.0.json trace.1.json and so on; trace.json stands for the files of the last run with this name.
trace_file.py describes the format."""
import argparse
import json
import os
import re
import statistics
import sys

sys.dont_write_bytecode = True  # no __pycache__ in the folder of the tools
import files  # noqa: E402
import trace_svg  # noqa: E402
from trace_file import COMPUTING, ROUNDING, BadTrace, check_rows, need, read_run  # noqa: E402

NOTABLE = 0.02  # part of the time that the others must have waited for a straggler
UPDATE, NEXT_BATCH = re.compile(r"\bupdate|_step\b"), re.compile(r"\bforward|gather_batch")


# Intervals are lists of pairs (begin, end) in order that do not overlap.
def union(pairs):
    merged = []
    for begin, end in sorted(pairs):
        if merged and begin <= merged[-1][1] + ROUNDING:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def common(a, b):
    """The parts that lie in both."""
    found, i, j = [], 0, 0
    while i < len(a) and j < len(b):
        begin, end = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if begin < end:
            found.append((begin, end))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return found


def total(intervals):
    return sum(end - begin for begin, end in intervals)


def step_windows(rank):
    """Returns (begin, end) of each training step: a step ends with the last update before the next forward pass."""
    windows, begin, end = [], None, None
    for span in sorted((s for s in rank.spans if s.row > 0 and s.cat in COMPUTING), key=lambda s: s.begin):
        if UPDATE.search(span.name) and begin is not None:
            end = span.end
        elif NEXT_BATCH.search(span.name):
            if end is not None:
                windows.append((begin, end))
                begin, end = end, None
            begin = span.begin if begin is None else begin
    return windows + ([(begin, end)] if end is not None else [])


def whole_window(rank):
    spans = rank.device_spans()
    need(spans, rank.path, f"rank {rank.number} has no operation on a stream")
    return min(s.begin for s in spans), max(s.end for s in spans)


def window_of_steps(rank, first, last):
    steps = step_windows(rank)
    need(last <= len(steps), rank.path, f"rank {rank.number} has {len(steps)} training steps, so there are no steps {first}:{last}")
    return steps[first - 1][0], steps[last - 1][1]


def choose_windows(run, options):
    """Returns the part of each rank's time that the table is about."""
    return {r.number: window_of_steps(r, *options.steps) if options.steps else whole_window(r) for r in run.ranks}


def picture_windows(run, options, windows):
    """Without --steps, a picture shows training steps 2 and 3, if there are any."""
    steps = min(len(step_windows(r)) for r in run.ranks)
    if options.steps or steps == 0:
        return windows
    first, last = (2, 3) if steps >= 3 else (1, steps)
    return {r.number: window_of_steps(r, first, last) for r in run.ranks}


def times_of(rank, window):
    """Returns window, computing, collectives, hidden, shown and idle, in microseconds."""
    def busy(categories):
        return common(union((s.begin, s.end) for s in rank.device_spans() if s.cat in categories), [window])
    computing, collectives = busy(COMPUTING), busy(("collective",))
    hidden = total(common(computing, collectives))
    length = window[1] - window[0]
    return (length, total(computing), total(collectives), hidden, total(collectives) - hidden,
            length - total(union(computing + collectives)))


def arrivals(run, windows=None):
    """Returns for each collective the times at which its ranks arrive, as dictionaries by rank. With windows, only those
    that begin in the window of their first rank."""
    by_key = {}
    for rank in run.ranks:
        for key, span in rank.collectives().items():
            by_key.setdefault(key, {})[rank.number] = span.begin
    if windows:
        by_key = {key: times for key, times in by_key.items()
                  if windows[min(times)][0] <= times[min(times)] < windows[min(times)][1]}
    return {key: times for key, times in by_key.items() if len(times) > 1}


def blame(run, found):
    """Returns for each rank how often it arrives last, and how long each other rank waits for it on average. Ranks that
    arrive last at the same time share both."""
    count, waited = ({r.number: 0 for r in run.ranks} for _ in range(2))
    for times in found.values():
        last = max(times.values())
        latest = [number for number, time in times.items() if last - time < 0.001]
        if len(latest) == len(times):
            continue  # nobody waits
        for number in latest:
            count[number] += 1 / len(latest)
            waited[number] += sum(last - time for time in times.values()) / (len(times) - 1) / len(latest)
    return count, waited


def straggler_line(count, waited, window):
    """One rank stands out if it is last at least twice as often as any other, and costs at least twice as much, and
    NOTABLE of the time."""
    worst, second = sorted(waited, key=lambda number: -waited[number])[:2]
    if waited[worst] == 0:
        return "no rank waits for another one"
    share = waited[worst] / window
    numbers = f"each other rank waits {waited[worst] / 1000:.3f} ms for rank {worst}, {100 * share:.1f} % of the time, and " \
              f"{waited[second] / 1000:.3f} ms for rank {second}"
    often = all(count[worst] >= 2 * count[number] for number in count if number != worst)
    if often and waited[worst] >= 2 * waited[second] and share >= NOTABLE:
        return f"rank {worst} is the straggler: {numbers}"
    return f"no rank stands out: {numbers}; a straggler is last twice as often and costs twice as much as any other rank, " \
           f"and {100 * NOTABLE:.0f} % of the time"


def percent(part, whole):
    return f"{100 * part / whole:.1f} %" if whole > 0 else "-"


def print_table(headings, rows):
    widths = [max(len(row[i]) for row in [headings] + rows) for i in range(len(headings))]
    for row in [headings] + rows:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths)))


def print_times(run, windows):
    rows = []
    for rank in run.ranks:
        length, computing, collectives, hidden, shown, idle = times_of(rank, windows[rank.number])
        values = [f"{value / 1000:.3f}" for value in (length, computing, collectives, hidden, shown, idle)]
        rows.append([str(rank.number), *values, percent(hidden, collectives), percent(idle, length)])
    print(f"Times of the streams in ms, {run.clock}: the window is computing + shown collectives + idle.")
    print_table(["rank", "window", "computing", "collectives", "hidden", "shown", "idle", "overlap", "idle share"], rows)


def print_waiting(run, windows):
    found = arrivals(run, windows)
    if not found:
        print("\nStraggler: there is no collective of several ranks.")
        return
    count, waited = blame(run, found)
    rows = [[str(number), f"{count[number]:g}", f"{waited[number] / 1000:.3f}"] for number in sorted(waited)]
    print(f"\nArrivals at {len(found)} collectives, {run.clock}: how often a rank is last, and how long each other rank "
          "waits for it, in ms.")
    print_table(["rank", "last", "waited for"], rows)
    window = statistics.mean(end - begin for begin, end in windows.values())
    print(f"{run.clock}: {straggler_line(count, waited, window)}.")


def align(run):
    """Hosts have different clocks. Moves the times of each host by the median difference of the ends of its collectives
    and those of hosts that are aligned already; a collective ends on all ranks at almost the same time."""
    hosts = {}
    for rank in run.ranks:
        hosts.setdefault(rank.host, []).append(rank)
    first, *left = hosts
    ends = {key: span.end for rank in hosts[first] for key, span in rank.collectives().items()}
    while left and not run.modelled:
        for host in left:
            here = {key: span.end for rank in hosts[host] for key, span in rank.collectives().items()}
            offsets = [ends[key] - end for key, end in here.items() if key in ends]
            if offsets:
                break
        need(offsets, hosts[left[0]][0].path, f"host {left[0]} shares no collective with the other hosts, so its clock is unknown")
        offset = statistics.median(offsets)
        for rank in hosts[host]:
            rank.shift(offset)
        ends.update({key: end + offset for key, end in here.items()})
        left.remove(host)


def begin_and_length(span, following, start):
    """Returns ts and dur, rounded to ns. A span ends 1 ns before the next one of its stream: viewers add floats, and would
    put the next span inside a span that ends at its begin."""
    ts, dur = round(span.begin - start, 3), round(span.end - span.begin, 3)
    if following and following.row == span.row > 0 and abs(span.end - following.begin) <= ROUNDING:
        dur = max(round(following.begin - start - ts - 0.001, 3), 0)
    return {"ts": ts, "dur": dur}


def merged_events(run):
    """Returns the events of all ranks. Times begin at zero, and the ids of arrows are unique."""
    start = min([s.begin for r in run.ranks for s in r.spans] + [a.begin for r in run.ranks for a in r.arrows])
    events, flow = [], 0
    for rank in run.ranks:
        pid = {"pid": rank.number}
        events.append({"ph": "M", "name": "process_name", **pid, "tid": 0, "args": {"name": f"rank {rank.number} ({rank.host})"}})
        events.append({"ph": "M", "name": "process_sort_index", **pid, "tid": 0, "args": {"sort_index": rank.number}})
        for row, name in sorted(rank.row_names.items()):
            events.append({"ph": "M", "name": "thread_name", **pid, "tid": row, "args": {"name": name}})
            events.append({"ph": "M", "name": "thread_sort_index", **pid, "tid": row, "args": {"sort_index": row}})
        for s, following in zip(rank.spans, rank.spans[1:] + [None]):
            events.append({"ph": "X", "name": s.name, "cat": s.cat, **pid, "tid": s.row, "args": s.args,
                           **begin_and_length(s, following, start)})
        for a in rank.arrows:
            flow += 1
            arrow = {"id": flow, "name": "event", "cat": "event", **pid}
            events.append({"ph": "s", **arrow, "tid": a.row, "ts": round(a.begin - start, 3)})
            events.append({"ph": "f", "bp": "e", **arrow, "tid": a.to_row, "ts": round(a.end - start, 3)})
    return events


def write_merged(run, path):
    hosts = sorted({r.host for r in run.ranks})
    other = {"clock": run.clock, "host": " ".join(hosts), "processes": len(run.ranks),
             "dropped": sum(r.dropped for r in run.ranks)}
    lines = ",\n".join(json.dumps(event) for event in merged_events(run))
    files.write(path, f'{{"displayTimeUnit":"ms","otherData":{json.dumps(other)},"traceEvents":[\n{lines}\n]}}\n')
    print(f"\n{path}: all ranks, {run.clock}. To see it, open https://ui.perfetto.dev and choose Open trace file; the "
          "file stays on this machine.")


def write_picture(run, options, windows):
    windows = picture_windows(run, options, windows)
    drawn = [r for r in run.ranks if options.ranks[0] <= r.number <= options.ranks[1]]
    need(drawn, run.ranks[0].path, f"there is no rank from {options.ranks[0]} to {options.ranks[1]}")
    boundaries = {r.number: step_windows(r) for r in drawn}
    text = trace_svg.draw(run, drawn, windows, boundaries, arrivals(run))
    files.write(options.svg, text)
    print(f"\n{options.svg}: a picture, {run.clock}. A browser shows it.")


def pair(least):
    """Returns a type for argparse: two numbers A:B, or one that stands for both."""
    def parse(text):
        parts = [int(part) for part in text.split(":")]
        first, last = parts[0], parts[-1]
        if len(parts) > 2 or first < least or last < first:
            raise ValueError
        return first, last
    parse.__name__ = "range A:B"
    return parse


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", metavar="FILE", help="traces of all ranks, or trace.json for trace.0.json and so on")
    parser.add_argument("--check", action="store_true", help="only check the files against the format; exit with 1 if they break it")
    parser.add_argument("-o", "--output", metavar="FILE", help="merge the ranks into one file for https://ui.perfetto.dev")
    parser.add_argument("--svg", metavar="FILE", help="draw training steps 2 and 3, or those of --steps")
    parser.add_argument("--steps", metavar="A:B", type=pair(1), help="only training steps A to B, which end with the update")
    parser.add_argument("--ranks", metavar="A:B", type=pair(0), default=(0, 7), help="ranks in the picture (default: 0:7)")
    return parser.parse_args()


def run_tool(options):
    run = read_run(options.files)
    if options.check:
        for rank in run.ranks:
            check_rows(rank)
            whole_window(rank)
        spans, arrows = (sum(len(part) for part in parts) for parts in zip(*((r.spans, r.arrows) for r in run.ranks)))
        print(f"{len(run.ranks)} rank{'s' * (len(run.ranks) > 1)}, {spans} spans, {arrows} arrows, {run.clock}: no mistake")
        return
    for rank in run.ranks:
        if rank.dropped:
            print(f"note: rank {rank.number} had no room for {rank.dropped} operations at the end", file=sys.stderr)
    align(run)
    windows = choose_windows(run, options)
    print_times(run, windows)
    print_waiting(run, windows)
    if options.output:
        write_merged(run, options.output)
    if options.svg:
        write_picture(run, options, windows)


def main():
    try:
        run_tool(parse_options())
    except BadTrace as error:
        sys.exit(f"error: {error}")
    except BrokenPipeError:  # head has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
