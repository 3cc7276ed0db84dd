"""The table of a benchmark: a line a ratio, beside its bar."""

import statistics


def spread(values: list[float], digits: int = 2) -> str:
    """Median and extremes: '3.41 (3.30-3.62)'."""
    low, high = min(values), max(values)
    return f"{statistics.median(values):.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def row(what: str, ours: list, other: list, values: list, bar: float | None, digits=2) -> tuple:
    """One line of the table; the median is held against the bar."""
    met = "" if bar is None else "yes" if statistics.median(values) <= bar else "no"
    return (
        what,
        spread(ours, digits),
        spread(other, digits) if other else "",
        spread(values, 3),
        "" if bar is None else f"<= {bar:.2f}",
        met,
    )


def ratios(ours: list[float], other: list[float]) -> list[float]:
    """Ratios of neighbours in time."""
    return [a / b for a, b in zip(ours, other, strict=True)]


def show(table: list[tuple]) -> None:
    """Print the table."""
    head = ("what", "ringside", "against", "ratio or value", "bar", "met")
    lines = [head, *table]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    for line in lines:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)))
