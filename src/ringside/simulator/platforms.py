"""Platforms: a simulated machine as a few figures, each with where it comes from.

A platform is a TOML file, such as those of `platforms/`:

    about = "what machine this is"
    cores = 128           # of a node, a rank on each
    flops = 2e9           # of a core, operations a second
    eager = 8192          # bytes of the longest message that is sent before its receive is there

    [node]                # between ranks of one node
    latency = 1e-6        # seconds one way
    bandwidth = 10e9      # bytes a second of a rank, each way
    memory = 100e9        # bytes a second of all messages within a node together; 0: no limit

    [network]             # between nodes
    latency = 2e-6
    bandwidth = 5e9       # of a message
    node = 20e9           # of all messages of a node together, each way

    [[segments]]          # messages from so many bytes on: factors of the above, left out: none
    bytes = 8192
    latency = 2.5
    bandwidth = 0.8

    [sources]             # a line for each figure
    cores = "..."
    "node.latency" = "guess: ..."
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, field, replace
from html import escape
from math import isfinite
from numbers import Integral, Real
from pathlib import Path

from ringside import ROOT
from ringside.errors import CampaignError
from ringside.kernels import check_name

FOLDER = ROOT / "platforms"
MOST_EAGER = 2**31 - 2  # SimGrid's, by one less
_FIGURES = {
    "cores": int,
    "flops": float,
    "eager": int,
    "node.latency": float,
    "node.bandwidth": float,
    "node.memory": float,
    "network.latency": float,
    "network.bandwidth": float,
    "network.node": float,
}
_MAY_BE_ZERO = {"eager", "node.memory", "node.latency", "network.latency"}


@dataclass(frozen=True)
class Platform:
    """A simulated machine; the figures are those of a platform file, `sources` says of each where
    it comes from."""

    name: str
    about: str
    figures: dict[str, float]
    segments: tuple[tuple[int, float, float], ...] = ((0, 1.0, 1.0),)
    sources: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, figure: str) -> float:
        return self.figures[figure]

    def but(self, **figures: float) -> Platform:
        """The same with other figures, by their names with `_` for the dot: `but(eager=0,
        network_latency=1e-3)`; its name tells them."""
        named = {name.replace("_", "."): value for name, value in figures.items()}
        sources = self.sources | dict.fromkeys(named, "changed by hand")
        made = checked(replace(self, figures=self.figures | named, sources=sources))
        changed = (f"{name} {value:g}" for name, value in named.items())
        return replace(made, name=", ".join([self.name, *changed]))

    @property
    def guesses(self) -> list[str]:
        """The figures that nobody has published or measured."""
        return [name for name in self.figures if self.sources.get(name, "").startswith("guess")]

    def toml(self) -> str:
        """The platform as a file."""
        lines = [f"about = {_quoted(self.about)}"]
        lines += [f"{name} = {_number(self[name])}" for name in ("cores", "flops", "eager")]
        for table in ("node", "network"):
            lines += ["", f"[{table}]"]
            lines += [
                f"{name.partition('.')[2]} = {_number(value)}"
                for name, value in self.figures.items()
                if name.startswith(f"{table}.")
            ]
        for nbytes, latency, bandwidth in self.segments:
            lines += ["", "[[segments]]", f"bytes = {nbytes}", f"latency = {_number(latency)}"]
            lines += [f"bandwidth = {_number(bandwidth)}"]
        lines += ["", "[sources]"]
        lines += [f'"{name}" = {_quoted(text)}' for name, text in self.sources.items()]
        return "\n".join([*lines, ""])

    def __str__(self):
        return self.name

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th scope='row'>{name}</th><td>{_in_units(name, value)}</td>"
            f"<td>{escape(self.sources.get(name, ''))}</td></tr>"
            for name, value in self.figures.items()
        )
        head = "<tr><th>figure</th><th>value</th><th>where it comes from</th></tr>"
        caption = escape(f"{self.name}: {self.about}")
        return f"<table><caption>{caption}</caption>{head}{rows}</table>"


def _in_units(name: str, value: float) -> str:
    if name in ("cores", "eager"):
        return f"{value:,}" + (" bytes" if name == "eager" else "")
    if name.endswith("latency"):
        return f"{1e6 * value:.4g} µs"
    if name == "node.memory" and value == 0:
        return "no limit"
    return f"{value / 1e9:.4g} {'GFlop/s' if name == 'flops' else 'GB/s'}"


def names() -> list[str]:
    """The platforms that come with Ringside."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load(given) -> Platform:
    """A platform: one itself, the name of one that comes with Ringside, or the path of a file.

    Raises CampaignError with the file, the figure and the remedy.
    """
    if isinstance(given, Platform):
        return given
    path = Path(given) if str(given).endswith(".toml") else FOLDER / f"{given}.toml"
    if path.parent == FOLDER and not path.exists():
        try:
            check_name("there is no platform", str(given), names())
        except ValueError as error:
            raise CampaignError(f"{error} Or give the path of a TOML file.") from None
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise CampaignError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise CampaignError(f"{path} is not TOML: {error}.") from None
    return _read(path.stem, content, str(path))


def _read(name: str, content: dict, where: str) -> Platform:
    flat = {}
    for key, value in content.items():
        flat |= (
            {f"{key}.{inner}": one for inner, one in value.items()}
            if key in ("node", "network") and isinstance(value, dict)
            else {key: value}
        )
    about, segments = flat.pop("about", ""), flat.pop("segments", [])
    sources = flat.pop("sources", {})
    if not isinstance(sources, dict):
        raise CampaignError(f"{where}, sources: it must be a table, with a line for each figure.")
    for key in [*flat, *sources]:
        try:
            check_name("there is no figure", key, _FIGURES)
        except ValueError as error:
            raise CampaignError(f"{where}: {error}") from None
    if missing := [key for key in _FIGURES if key not in flat]:
        raise CampaignError(f"{where}: {', '.join(missing)} must be given.")
    if unsaid := [key for key in _FIGURES if not isinstance(sources.get(key), str)]:
        raise CampaignError(
            f"{where}, [sources]: it does not say where {', '.join(unsaid)} "
            f"come{'s' if len(unsaid) == 1 else ''} from; a line that begins with 'guess' will do."
        )
    try:
        read = tuple((one["bytes"], one["latency"], one["bandwidth"]) for one in segments)
    except (TypeError, KeyError):
        raise CampaignError(
            f"{where}, [[segments]]: each needs bytes, latency and bandwidth."
        ) from None
    figures = {key: flat[key] for key in _FIGURES}
    return checked(Platform(name, str(about), figures, read or ((0, 1.0, 1.0),), sources), where)


def checked(platform: Platform, where: str = "") -> Platform:
    """The platform, if there can be such a machine; else CampaignError."""
    where = where or f"the platform {platform.name}"
    for key, value in platform.figures.items():
        if key not in _FIGURES:
            raise CampaignError(f"{where}: there is no figure {key!r}: {', '.join(_FIGURES)}.")
        if not _is_number(value) or not (value > 0 or (value == 0 and key in _MAY_BE_ZERO)):
            least = "of 0 or more" if key in _MAY_BE_ZERO else "above 0"
            raise CampaignError(f"{where}, {key}: it must be a number {least}, not {value!r}.")
        if _FIGURES[key] is int and value != int(value):
            raise CampaignError(f"{where}, {key}: it must be a whole number, not {value!r}.")
    if platform["eager"] > MOST_EAGER:
        raise CampaignError(f"{where}, eager: it can be at most {MOST_EAGER:,} bytes.")
    if platform["network.latency"] < platform["node.latency"]:
        raise CampaignError(
            f"{where}: network.latency is less than node.latency. A message to another node also "
            "passes its own: give network.latency the whole way."
        )
    if platform["network.bandwidth"] > platform["node.bandwidth"]:
        raise CampaignError(
            f"{where}: network.bandwidth is more than node.bandwidth. What a rank sends to another "
            "node passes its own link too: raise node.bandwidth, or lower the other."
        )
    if not all(_is_number(one) for segment in platform.segments for one in segment):
        raise CampaignError(f"{where}, segments: they must be numbers.")
    starts = [one[0] for one in platform.segments]
    if any(start != int(start) for start in starts):
        raise CampaignError(f"{where}, segments: bytes must be whole numbers.")
    if starts[0] != 0 or starts != sorted(set(starts)):
        raise CampaignError(f"{where}, segments: they must begin at 0 bytes and go up.")
    if any(not factor > 0 for one in platform.segments for factor in one[1:]):
        raise CampaignError(f"{where}, segments: every factor must be above 0.")
    return platform


def _is_number(value) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and isfinite(value)


def _number(value: float) -> str:
    """As TOML has it, to the last bit."""
    return str(int(value)) if isinstance(value, Integral) else repr(float(value))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # which TOML reads alike
