"""The drawing of results: well-formed, to scale, with what was measured written beside it."""

from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest

from bench.perf.__main__ import main
from bench.perf.plot import BAR_WIDTH, plot_svg
from shared.errors import ConfigurationError
from tests.unit.bench.perf.test_result import result_of

SVG = "{http://www.w3.org/2000/svg}"


def test_bars_are_to_scale_and_each_row_says_what_it_is() -> None:
    text = plot_svg([result_of(100), result_of(50, workload='<A>&"B"')])
    root = ET.fromstring(text)
    bars = [rect for rect in root.iter(f"{SVG}rect") if rect.get("height") == "16"]
    widths = [float(str(bar.get("width"))) for bar in bars]
    assert widths == [BAR_WIDTH, BAR_WIDTH / 2] * 2
    words = [each.text or "" for each in root.iter(f"{SVG}text")]
    assert '<A>&"B", decisions, ? scorer(s)' in words
    assert {"200", "100", "1.000", "0.500", "owner"} <= set(words)


def test_a_result_without_a_figure_is_a_row_without_a_bar() -> None:
    empty = result_of(100)
    nothing = msgspec.structs.replace(
        empty.median, throughput_pods_per_s={}, cpu_s_per_1000_pods={}
    )
    text = plot_svg([msgspec.structs.replace(empty, median=nothing)])
    assert ET.fromstring(text) is not None


def test_the_command_writes_the_file(tmp_path: Path) -> None:
    result = tmp_path / "a.json"
    result.write_bytes(msgspec.json.encode(result_of(100)))
    assert main(["plot", str(result), "--output", str(tmp_path / "a.svg")]) == 0
    assert (tmp_path / "a.svg").read_text(encoding="utf-8").startswith("<svg ")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--cores", "8,x"], "--cores 8,x: must be numbers from 1 to 1024"),
        (["--pods", "0"], "--pods 0: must lie in 1"),
        ([], "has CPU times of owner; owner, scorers, binders needed"),
    ],
)
def test_a_look_ahead_that_cannot_be_taken_says_why(
    tmp_path: Path, arguments: list[str], problem: str
) -> None:
    result = tmp_path / "a.json"
    result.write_bytes(msgspec.json.encode(result_of(100)))
    with pytest.raises(ConfigurationError, match=problem):
        main(["scale", str(result), str(result), *arguments])
