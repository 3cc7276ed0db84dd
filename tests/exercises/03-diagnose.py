"""Answers of 03-diagnose: the right one in several styles, and wrong ones as students give them."""

VALUES = "gives the right values on every rank"

RIGHT = {
    "a list": """
def diagnosis():
    return ["chain", "no overlap", "deadlock", "imbalance", "bottleneck"]
""",
    "an array, from a dictionary": """
found = {"C": "deadlock", "A": "chain", "D": "imbalance", "E": "bottleneck", "B": "no overlap"}

def diagnosis():
    return np.array([found[name] for name in sorted(found)])
""",
    "a tuple": """
def diagnosis():
    return "chain", "no overlap", "deadlock", "imbalance", "bottleneck"
""",
}

WRONG = {
    "a chain for a deadlock, and the other way round": (
        VALUES,
        "what it returned is wrong in 2 of 5; the first is [0]",
        """
def diagnosis():
    return ["deadlock", "no overlap", "chain", "imbalance", "bottleneck"]
""",
    ),
    "whatever makes all wait is called a bottleneck": (
        VALUES,
        "what it returned is wrong in 1 of 5; the first is [3]",
        """
def diagnosis():
    return ["chain", "no overlap", "deadlock", "bottleneck", "bottleneck"]
""",
    ),
    "one is left out": (
        VALUES,
        "it returned an array of 4, and should be an array of 5",
        """
def diagnosis():
    return ["chain", "no overlap", "deadlock", "imbalance"]
""",
    ),
    "printed and not returned": (
        VALUES,
        "it returned nothing",
        """
def diagnosis():
    print(["chain", "no overlap", "deadlock", "imbalance", "bottleneck"])
""",
    ),
    "nothing in it": (
        VALUES,
        "what it returned is wrong in 5 of 5",
        """
def diagnosis():
    return ["", "", "", "", ""]
""",
    ),
}
