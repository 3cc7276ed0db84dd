"""Solutions of 04-latency: right ones in several styles, and wrong ones as students write them."""

RIGHT = {
    "least squares in which per cents count": """
def latency_and_bandwidth(nbytes, seconds):
    weights = 1 / seconds
    table = np.column_stack([weights, weights * nbytes])
    (latency, per_byte), *_ = np.linalg.lstsq(table, weights * seconds, rcond=None)
    return latency, 1 / per_byte
""",
    "the fastest of each size, then a weighted line": """
def latency_and_bandwidth(nbytes, seconds):
    sizes = np.unique(nbytes)
    fastest = np.array([seconds[nbytes == size].min() for size in sizes])
    per_byte, latency = np.polyfit(sizes, fastest, 1, w=1 / fastest)
    return [latency, 1 / per_byte]
""",
    "the two ends: medians of the smallest and of the largest size": """
def latency_and_bandwidth(nbytes, seconds):
    small, large = min(nbytes), max(nbytes)
    first = np.median(seconds[nbytes == small])
    last = np.median(seconds[nbytes == large])
    per_byte = (last - first) / (large - small)
    return np.array([first - small * per_byte, 1 / per_byte])
""",
}

WRONG = {
    "all seconds count alike": (
        "gives the right values on every rank",
        "the first is [0]",
        """
def latency_and_bandwidth(nbytes, seconds):
    per_byte, latency = np.polyfit(nbytes, seconds, 1)
    return latency, 1 / per_byte
""",
    ),
    "the time of a byte in place of the bytes in a second": (
        "gives the right values on every rank",
        "what it returned is wrong in 1 of 2 elements; the first is [1]",
        """
def latency_and_bandwidth(nbytes, seconds):
    per_byte, latency = np.polyfit(nbytes, seconds, 1, w=1 / seconds)
    return latency, per_byte
""",
    ),
    "the wrong way round": (
        "gives the right values on every rank",
        "what it returned is wrong in 2 of 2 elements",
        """
def latency_and_bandwidth(nbytes, seconds):
    per_byte, latency = np.polyfit(nbytes, seconds, 1, w=1 / seconds)
    return 1 / per_byte, latency
""",
    ),
    "in microseconds and GB/s": (
        "gives the right values on every rank",
        "what it returned is wrong in 2 of 2 elements",
        """
def latency_and_bandwidth(nbytes, seconds):
    per_byte, latency = np.polyfit(nbytes, seconds, 1, w=1 / seconds)
    return 1e6 * latency, 1e-9 / per_byte
""",
    ),
    "halved, as if it were a round trip": (
        "gives the right values on every rank",
        "the first is [0]",
        """
def latency_and_bandwidth(nbytes, seconds):
    per_byte, latency = np.polyfit(nbytes, seconds, 1, w=1 / seconds)
    return latency / 2, 1 / per_byte
""",
    ),
    "the mean of everything up to 64 kB, and of the rates": (
        "gives the right values on every rank",
        "what it returned is wrong in",
        """
def latency_and_bandwidth(nbytes, seconds):
    return seconds[nbytes <= 2**16].mean(), (nbytes / seconds).mean()
""",
    ),
    "a line through the logarithms": (
        "gives the right values on every rank",
        "what it returned is wrong in",
        """
def latency_and_bandwidth(nbytes, seconds):
    slope, start = np.polyfit(np.log(nbytes), np.log(seconds), 1)
    return np.exp(start), 1 / np.exp(slope)
""",
    ),
    "one machine's numbers, by heart": (
        "gives the right values on every rank",
        "what it returned is wrong in",
        """
def latency_and_bandwidth(nbytes, seconds):
    return 1.9e-6, 9.2e9
""",
    ),
}
