"""Text that fits beneath a cell."""

from ringside import errors


def test_a_number_stays_beside_its_unit():
    for unit in ("B", "MB", "MB/s", "s", "ms", "µs", "%", "% of it"):
        for before in range(70, errors.WIDTH):
            lines = errors.in_lines(f"{'x' * before} 400 {unit}, and so on")
            assert any(f"400 {unit[0]}" in line for line in lines), lines
            assert max(map(len, lines)) <= errors.WIDTH
            assert " ".join(lines) == f"{'x' * before} 400 {unit}, and so on"
