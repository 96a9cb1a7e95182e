# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""What a job of a given size costs, from what smaller ones have cost.

Each quantity is a sum of a few terms that are counted, not measured (processes, events...), each with a cost that is
fitted: least squares of the relative errors, so that small jobs count as much as large ones, and no cost is negative.
"""
import dataclasses
import itertools
import statistics
import typing


@dataclasses.dataclass(frozen=True)
class Size:
    hosts: int
    processes: int  # of each host
    nics: int = 8
    peers: int = 2

    @property
    def all_processes(self):
        return self.hosts * self.processes

    @property
    def records(self):
        return self.all_processes * self.nics

    @property
    def lookers(self):
        """Hosts that look at a host's records, and at which it looks."""
        return min(self.peers, self.hosts - 1)

    @property
    def known(self):
        """Records that a daemon has: those of its own processes, and of the hosts that they look at."""
        return self.processes * self.nics * (1 + self.lookers)

    @property
    def events(self):
        """That etcd sends if no record is there before it is looked at."""
        return self.records * self.lookers

    @property
    def leases(self):
        """That are kept: of each process, of each daemon, and the job's, which each daemon keeps."""
        return self.all_processes + 2 * self.hosts

    def __str__(self):
        return f"{self.hosts}x{self.processes}"


TERMS = {
    "once": lambda s: 1,
    "host": lambda s: s.hosts,
    "process": lambda s: s.all_processes,
    "process of the host": lambda s: s.processes,
    "record": lambda s: s.records,
    "record that it knows": lambda s: s.known,
    "lease": lambda s: s.leases,
    "event of a death": lambda s: s.nics * s.lookers + s.hosts,
}


@dataclasses.dataclass(frozen=True)
class Quantity:
    name: str
    unit: str
    terms: tuple
    of: typing.Callable  # from a run; None: it was not measured


def idle_rate(run, name):
    return run["idle"][name] / run["idle"]["seconds"]


def beyond_idle(phase, name, scale=1, each=None):
    """Without what goes on all the time; divided by a number that the run has."""
    def of(run):
        if not run.get("idle") or not run.get(phase):
            return None
        spent = run[phase][name] - idle_rate(run, name) * run[phase]["seconds"]
        return scale * max(spent, 0) / (run[each] if each else 1) or None
    return of


def of_idle(name, scale=1):
    return lambda run: run.get("idle") and scale * idle_rate(run, name)


def of_phase(phase, name, scale=1):
    return lambda run: run.get(phase) and scale * run[phase][name]


QUANTITIES = (
    Quantity("start: etcd", "CPU s", ("once", "host"), of_phase("start", "etcd_cpu_s")),
    Quantity("start: bytes", "MB", ("host",), of_phase("start", "host_bytes", 1e-6)),
    # A record is an event for each host that looks at it, whatever the size of the job: part of a process's cost.
    Quantity("join: etcd", "CPU s", ("process", "host"), of_phase("join", "etcd_cpu_s")),
    Quantity("join: bytes", "MB", ("process", "host"), of_phase("join", "host_bytes", 1e-6)),
    Quantity("join: a daemon", "CPU s", ("once", "record that it knows", "record"),
             lambda run: run["join"]["kvds_cpu_s"] / run["hosts"]),
    Quantity("memory of etcd", "MB", ("once", "record", "host"), of_phase("join", "etcd_rss_kb", 1 / 1024)),
    Quantity("memory of a daemon", "MB", ("once", "record that it knows", "record"),
             of_phase("join", "kvd_rss_kb", 1 / 1024)),
    Quantity("content of etcd", "MB", ("once", "record"), lambda run: run["join"]["etcd"]["db_bytes_used"] / 1e6),
    Quantity("idle: etcd", "CPU s a second", ("once", "lease"), of_idle("etcd_cpu_s")),
    Quantity("idle: guard of etcd", "CPU s a second", ("once", "lease"), of_idle("guard_cpu_s")),
    Quantity("idle: bytes", "MB a second", ("lease",), of_idle("host_bytes", 1e-6)),
    Quantity("a death: etcd", "CPU s", ("once", "event of a death"), beyond_idle("death", "etcd_cpu_s", 1, "deaths")),
    Quantity("a death: bytes", "MB", ("once", "event of a death"), beyond_idle("death", "host_bytes", 1e-6, "deaths")),
    Quantity("a late host: etcd", "CPU s", ("once",), beyond_idle("late", "etcd_cpu_s")),
    Quantity("a late host: its daemon", "CPU s", ("once",), of_phase("late", "kvd_cpu_max_s")),
    Quantity("a late host: bytes", "MB", ("once",), beyond_idle("late", "host_bytes", 1e-6)),
)


def size_of(run):
    return Size(run["hosts"], run["processes"], run["nics"], run["peers"])


def medians(runs, quantity):
    """{size: the median of its runs}"""
    by_size = {}
    for run in runs:
        value = quantity.of(run)
        if value:
            by_size.setdefault(size_of(run), []).append(value)
    return {size: statistics.median(values) for size, values in by_size.items()}


def solve(matrix, vector):
    """By elimination; None: it has no one solution."""
    n = len(vector)
    rows = [list(matrix[i]) + [vector[i]] for i in range(n)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda r: abs(rows[r][i]))
        if abs(rows[pivot][i]) < 1e-9:
            return None
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for r in range(n):
            if r != i:
                rows[r] = [x - rows[r][i] * y for x, y in zip(rows[r], rows[i])]
    return [row[n] for row in rows]


def fit_terms(points, terms):
    """The costs of these terms, and the sum of the squared relative errors; None: one would be negative."""
    # Terms differ by powers of ten: each is divided by its greatest value.
    scale = {t: max(TERMS[t](size) for size in points) or 1 for t in terms}
    rows = [[TERMS[t](size) / scale[t] / value for t in terms] for size, value in points.items()]
    columns = list(zip(*rows))
    costs = solve([[sum(a * b for a, b in zip(x, y)) for y in columns] for x in columns], [sum(x) for x in columns])
    if costs is None or min(costs) < 0:
        return None
    error = sum((sum(c * x for c, x in zip(costs, row)) - 1) ** 2 for row in rows)
    return {t: c / scale[t] for t, c in zip(terms, costs)}, error


def fit(points, terms):
    """{term: cost}, none below 0: of all subsets of the terms, the one with the smallest error."""
    subsets = [s for n in range(1, len(terms) + 1) for s in itertools.combinations(terms, n)]
    fits = [f for f in (fit_terms(points, s) for s in subsets) if f]
    return min(fits, key=lambda f: f[1])[0] if fits else {}


def predict(costs, size):
    return sum(cost * TERMS[term](size) for term, cost in costs.items())


def hold_out(runs, held):
    """[(quantity, size, predicted by smaller ones, measured)] for the `held` largest sizes."""
    result = []
    for quantity in QUANTITIES:
        points = medians(runs, quantity)
        sizes = sorted(points, key=lambda s: s.records * s.hosts)
        smaller = {s: points[s] for s in sizes[:-held]}
        if len(smaller) < len(quantity.terms):
            continue
        costs = fit(smaller, quantity.terms)
        result += [(quantity, s, predict(costs, s), points[s]) for s in sizes[-held:]]
    return result


def fit_all(runs):
    """{quantity: {term: cost}} from all sizes; without those that were measured at too few."""
    points = {q: medians(runs, q) for q in QUANTITIES}
    return {q: fit(p, q.terms) for q, p in points.items() if len(p) >= len(q.terms)}
