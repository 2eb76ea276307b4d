"""The report of networks compared side by side."""

from hotlap.core import units
from hotlap.record.networks import NetComparison, SizeReading
from hotlap.report.sections import Cells, Notes, Section, Table

FASTER = 1.1  # as long as the smallest network: worth calling longer


def headline(comparison: NetComparison) -> str:
    return f"networks, batch {comparison.batch}"


def sections(comparison: NetComparison) -> list[Section]:
    built: list[Section] = [Notes([_sentence(r) for r in comparison.readings], kind="result")] if comparison.readings else []
    return [*built, _networks(comparison), _modules(comparison)]


def _sentence(reading: SizeReading) -> str:
    what = (
        f"{reading.net} computes {reading.operations:.1f}x as much as {reading.smallest} and takes {reading.time:.2f}x as long"
    )
    if reading.follows:
        return f"{what}: time follows size."
    if reading.time > FASTER:
        return f"{what}: time does not follow size, most of the smaller one's is overhead. Smaller is faster, but by less."
    return f"{what}: time does not follow size. It is overhead-bound; a smaller network would not be faster."


def _networks(comparison: NetComparison) -> Table:
    rows: list[Cells] = []
    for net in comparison.nets:
        low, high = net.both_ci95
        counted = units.count(net.parameters), units.count(net.operations), units.size(net.saved_bytes)
        times = units.seconds(net.act), units.seconds(net.forward), units.seconds(net.backward)
        rows.append((net.name, *counted, *times, f"{units.seconds(net.both)} ({units.seconds(low)}-{units.seconds(high)})"))
    columns = ("network", ">parameters", ">operations", ">kept", ">act", ">forward", ">backward", ">both, 95%")
    note = (
        f"batch {comparison.batch}, interleaved in one process; operations of a forward pass; kept: memory for the backward "
        "pass; act: forward without gradients"
    )
    return Table("Networks", columns, rows, note)


def _modules(comparison: NetComparison) -> Table:
    rows: list[Cells] = []
    for net in comparison.nets:
        for module in net.modules:
            name = "  " * min(module.depth, 20) + f"{module.name.rpartition('.')[2]} ({module.kind})"
            calls = max(module.calls, 1)
            times = [units.seconds(seconds / calls) if seconds else "-" for seconds in (module.forward, module.backward)]
            rows.append((name, f"{module.parameters:,}", *times))
    columns = ("module", ">parameters", ">forward", ">backward")
    return Table("Networks, module by module", columns, rows, "with hooks, in a separate pass")
