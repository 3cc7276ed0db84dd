"""Solutions of 01-eager-limit: right ones in several styles, wrong ones as students write them."""

VALUES = "gives the right values on every rank"
FEW = "finds it with few tries"

RIGHT = {
    "doubles, then halves the distance": """
def largest_that_passes(passes):
    fails = 1
    while passes(fails):
        fails *= 2
    good = fails // 2
    while fails - good > 1:
        middle = (good + fails) // 2
        if passes(middle):
            good = middle
        else:
            fails = middle
    return good
""",
    "from the largest bit to the smallest": """
def largest_that_passes(passes):
    found = 0
    for bit in range(23, -1, -1):
        if passes(found + 2**bit):
            found += 2**bit
    return found
""",
    "by the library's bisection, on what is false and then true": """
import bisect

def largest_that_passes(passes):
    return bisect.bisect_left(range(2**24 + 1), True, key=lambda n: not passes(n)) - 1
""",
}

WRONG = {
    "stops at the last power of two": (
        VALUES,
        "it returned",
        """
def largest_that_passes(passes):
    nbytes = 1
    while passes(2 * nbytes):
        nbytes *= 2
    return nbytes
""",
    ),
    "gives the first that does not pass": (
        VALUES,
        "it returned",
        """
def largest_that_passes(passes):
    good, fails = 0, 2**24
    while fails - good > 1:
        middle = (good + fails) // 2
        if passes(middle):
            good = middle
        else:
            fails = middle
    return fails
""",
    ),
    "a thousand bytes at a time, then byte by byte": (
        FEW,
        "64 are enough",
        """
def largest_that_passes(passes):
    nbytes = 0
    for step in (1000, 1):
        while passes(nbytes + step):
            nbytes += step
    return nbytes
""",
    ),
    "asks three times, to be sure": (
        FEW,
        "it tried 72 sizes, and 64 are enough",
        """
def largest_that_passes(passes):
    good, fails = 0, 2**24
    while fails - good > 1:
        middle = (good + fails) // 2
        if passes(middle) and passes(middle) and passes(middle):
            good = middle
        elif not passes(middle) and not passes(middle):
            fails = middle
    return good
""",
    ),
    "halves the distance for ever": (
        "runs without an error",
        "10,000 sizes have been tried",
        """
def largest_that_passes(passes):
    good, fails = 0, 2**24
    while good < fails:
        middle = (good + fails) // 2
        if passes(middle):
            good = middle
        else:
            fails = middle
    return good
""",
    ),
    "a limit that it has seen in the lesson": (
        VALUES,
        "it returned 65536, and should be",
        """
def largest_that_passes(passes):
    return 65536
""",
    ),
    "looks no further than a fixed size": (
        VALUES,
        "it returned 65535, and should be",
        """
def largest_that_passes(passes):
    good, fails = 0, 65536
    while fails - good > 1:
        middle = (good + fails) // 2
        if passes(middle):
            good = middle
        else:
            fails = middle
    return good
""",
    ),
    "prints the answer": (
        VALUES,
        "it returned nothing, and should be",
        """
def largest_that_passes(passes):
    found = 0
    for bit in range(23, -1, -1):
        found += 2**bit if passes(found + 2**bit) else 0
    print(found)
""",
    ),
}
