"""Solutions of 05-efficiency: right ones in several styles, and wrong ones as students write
them."""

RIGHT = {
    "arrays": """
def efficiency(ranks, seconds, weak):
    first = np.argmin(ranks)
    ideal = seconds[first] if weak else seconds[first] * ranks[first] / ranks
    return ideal / seconds
""",
    "a loop and a list": """
def efficiency(ranks, seconds, weak):
    fewest = min(ranks)
    for p, t in zip(ranks, seconds):
        if p == fewest:
            reference = t
    answer = []
    for p, t in zip(ranks, seconds):
        if weak:
            answer.append(reference / t)
        else:
            answer.append((fewest * reference) / (p * t))
    return answer
""",
    "pandas": """
import pandas as pd


def efficiency(ranks, seconds, weak):
    table = pd.DataFrame({"p": ranks, "t": seconds})
    table["cost"] = table["t"] if weak else table["t"] * table["p"]
    first = table.sort_values("p").iloc[0]
    return (first["cost"] / table["cost"]).to_numpy()
""",
}

WRONG = {
    "the report's formula, whatever the experiment": (
        "gives the right values on every rank",
        "what it returned is wrong in",
        """
def efficiency(ranks, seconds, weak):
    first = np.argmin(ranks)
    return seconds[first] / seconds / ranks
""",
    ),
    "forgets the fewest ranks in strong scaling: right only where they are 1": (
        "gives the right values on every rank",
        "what it returned is wrong in",
        """
def efficiency(ranks, seconds, weak):
    first = np.argmin(ranks)
    if weak:
        return seconds[first] / seconds
    return seconds[first] / (ranks * seconds)
""",
    ),
    "weak and strong the wrong way round": (
        "gives the right values on every rank",
        "what it returned is wrong in",
        """
def efficiency(ranks, seconds, weak):
    first = np.argmin(ranks)
    if not weak:
        return seconds[first] / seconds
    return ranks[first] * seconds[first] / (ranks * seconds)
""",
    ),
    "takes the first row for the one with the fewest ranks": (
        "gives the right values on every rank",
        "what it returned is wrong in",
        """
def efficiency(ranks, seconds, weak):
    if weak:
        return seconds[0] / seconds
    return ranks[0] * seconds[0] / (ranks * seconds)
""",
    ),
    "sorts, and returns in another order": (
        "gives the right values on every rank",
        "what it returned is wrong in",
        """
def efficiency(ranks, seconds, weak):
    order = np.argsort(ranks)
    ranks, seconds = ranks[order], seconds[order]
    if weak:
        return seconds[0] / seconds
    return ranks[0] * seconds[0] / (ranks * seconds)
""",
    ),
    "the speedup": (
        "gives the right values on every rank",
        "what it returned is wrong in",
        """
def efficiency(ranks, seconds, weak):
    first = np.argmin(ranks)
    speedup = seconds[first] / seconds
    return speedup if weak else speedup * ranks[first]
""",
    ),
    "in per cent": (
        "gives the right values on every rank",
        "what it returned is wrong in 5 of 5 elements",
        """
def efficiency(ranks, seconds, weak):
    first = np.argmin(ranks)
    ideal = seconds[first] if weak else seconds[first] * ranks[first] / ranks
    return 100 * ideal / seconds
""",
    ),
    "one number, for the most ranks": (
        "gives the right values on every rank",
        "it returned a single number, and should be an array of 5",
        """
def efficiency(ranks, seconds, weak):
    first, last = np.argmin(ranks), np.argmax(ranks)
    ratio = seconds[first] / seconds[last]
    return ratio if weak else ratio * ranks[first] / ranks[last]
""",
    ),
    "prints it": (
        "gives the right values on every rank",
        "it returned nothing",
        """
def efficiency(ranks, seconds, weak):
    first = np.argmin(ranks)
    ideal = seconds[first] if weak else seconds[first] * ranks[first] / ranks
    print(ideal / seconds)
""",
    ),
}
