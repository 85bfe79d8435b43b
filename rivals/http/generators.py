"""Our load generator beside wrk: CPU time of a request, as the table of docs/method.md.

    generators.py OLIVINE HELLO_HTTP SECONDS RUNS

OLIVINE is the tool, HELLO_HTTP the example that serves. `cargo xtask peers` builds both.
"""

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from statistics import median_high

# Requests in flight on each connection.
DEPTHS = [1, 16, 64, 256]
CONNECTIONS = "64"
GENERATORS = ["wrk", "epoll", "io-uring"]
PIPELINE = """init = function(args)
  local one = wrk.format(nil, nil)
  batch = string.rep(one, {})
end
request = function() return batch end
"""


def serve(program, cpu):
    """The server on a free port and one CPU, and its address. It ends after ten minutes."""
    words = "--listen 127.0.0.1:0 --duration 600 --threads 1 --wait block --cpus"
    command = [program, *words.split(), str(cpu)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    said = server.stdout.readline()
    found = re.match("listening on ([^,]+)", said)
    assert found, f"{program} does not listen: {said}"
    return server, f"http://{found[1]}/plaintext"


def by_wrk(url, depth, seconds, cpu):
    """CPU time in ns of wrk for a request; it has one thread on its CPU."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(PIPELINE.format(depth))
        script.flush()
        words = ["taskset", "-c", str(cpu), "wrk", "--threads", "1", "--connections", CONNECTIONS]
        words += ["--duration", f"{max(1, round(seconds))}s", "--script", script.name, url]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return used * 1e9 / requests(said)


def requests(said):
    """The number of requests, from the output of wrk.

    >>> requests("  100000 requests in 1.00s, 12.30MB read")
    100000
    >>> requests("  9 requests in 1.00s, 1B read\\n  Non-2xx or 3xx responses: 9")
    Traceback (most recent call last):
    AssertionError: wrk: ...
    """
    found = re.search(r"(\d+) requests in ", said)
    assert found and "Non-2xx" not in said and "Socket errors" not in said, f"wrk: {said}"
    return int(found[1])


def by_olivine(tool, interface, url, depth, seconds, cpus):
    """CPU time in ns of our generator for a request."""
    words = [tool, "--json", "bench", "http", url, "--generator", interface, "--runs", "1"]
    words += ["--depth", str(depth), "--connections", CONNECTIONS, "--seconds", str(seconds)]
    words += ["--cpus", ",".join(map(str, cpus))]
    said = subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout
    return json.loads(said)["results"][0]["values"]["generator_cpu_ns"]["median"]


def table(costs):
    """Medians with least and most, and what follows from them. `costs[generator][depth]` has the
    CPU times in ns of all runs.

    >>> runs = {"wrk": [900, 890, 910], "epoll": [300] * 3, "io-uring": [450] * 3}
    >>> print(table({name: {depth: runs[name] for depth in DEPTHS} for name in GENERATORS}))
    | depth | wrk | epoll | io-uring | wrk to the better of ours |
    | --- | --- | --- | --- | --- |
    | 1 | 900 ns (890 to 910) | 300 ns (300 to 300) | 450 ns (450 to 450) | 3.0 |
    ...
    By that, one CPU drives up to 1.1 M requests/s with wrk (depth 1) and 3.3 M with ours (depth 1),
    3.0 times as many.
    """
    pairs = [(name, depth) for name in GENERATORS for depth in DEPTHS]
    medians = {(name, depth): median_high(costs[name][depth]) for name, depth in pairs}
    lines = [f"| depth | {' | '.join(GENERATORS)} | wrk to the better of ours |"]
    lines.append("|" + " --- |" * (len(GENERATORS) + 2))
    for depth in DEPTHS:
        cells = [str(depth)]
        for name in GENERATORS:
            runs = costs[name][depth]
            cells.append(f"{medians[name, depth]:.0f} ns ({min(runs):.0f} to {max(runs):.0f})")
        ours = min(medians[name, depth] for name in GENERATORS[1:])
        cells.append(f"{medians['wrk', depth] / ours:.1f}")
        lines.append(f"| {' | '.join(cells)} |")
    (wrk, wrk_depth), (ours, depth) = (
        min((medians[name, depth], depth) for name in names for depth in DEPTHS)
        for names in (GENERATORS[:1], GENERATORS[1:])
    )
    lines.append(
        f"\nBy that, one CPU drives up to {1e3 / wrk:.1f} M requests/s with wrk (depth {wrk_depth})"
        f" and {1e3 / ours:.1f} M with ours (depth {depth}),\n{wrk / ours:.1f} times as many."
    )
    return "\n".join(lines)


def main(tool, program, seconds, runs):
    """Measures all in turns."""
    server_cpu, cpu, *_ = sorted(os.sched_getaffinity(0))
    server, url = serve(program, server_cpu)
    each = max(1.0, float(seconds) / int(runs))
    costs = {name: {depth: [] for depth in DEPTHS} for name in GENERATORS}
    try:
        for _ in range(int(runs)):
            for depth in DEPTHS:
                costs["wrk"][depth].append(by_wrk(url, depth, each, cpu))
                for name in GENERATORS[1:]:
                    cost = by_olivine(tool, name, url, depth, each, (server_cpu, cpu))
                    costs[name][depth].append(cost)
    finally:
        server.kill()
        server.wait()
    print(table(costs))


if __name__ == "__main__":
    main(*sys.argv[1:])
