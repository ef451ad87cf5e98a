"""The roofline to explore: a Vega-Lite specification, the same compiled to Vega, and a page for offline.

Zoom and pan, every number and its source where one points, a kernel to pick, names to filter, and boundaries
and lower ceilings to switch on. altair and vl-convert-python come with the extra ``interactive``; they are
imported when they are asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import files
from ..errors import BadInput
from ..results import Results
from . import panels, rows, style

if TYPE_CHECKING:
    import altair

FORMATS = ("vega-lite", "vega", "html")
ENDINGS = {"vega-lite": "vl.json", "vega": "vg.json", "html": "html"}

_EXTRA = "pip install 'counteroof[interactive]'"


def save(results: Results, folder: Path, name: str, formats: Sequence[str]) -> tuple[Path, ...]:
    """Write the roofline into ``folder`` in some of the formats, and return the files.

    Raises
    ------
    BadInput
        If altair, or for ``vega`` and ``html`` vl-convert-python, is not installed.
    """
    made = spec(results)
    written = []
    for form in formats:
        path = folder / f"{name}.{ENDINGS[form]}"
        if form == "vega-lite":
            text = json.dumps(made, indent=1, allow_nan=False)
        elif form == "vega":
            text = json.dumps(vega(made), indent=1, allow_nan=False)
        else:
            text = page(made)
        files.write_text(path, text)
        written.append(path)
    return tuple(written)


def spec(results: Results) -> dict[str, Any]:
    """Return the Vega-Lite specification, with all data in it."""
    found: dict[str, Any] = _chart(results).to_dict()
    return found


def vega(vega_lite: dict[str, Any]) -> dict[str, Any]:
    """Return a specification compiled to Vega."""
    found: dict[str, Any] = _converter().vegalite_to_vega(vega_lite, vl_version=_version())
    return found


def page(vega_lite: dict[str, Any]) -> str:
    """Return a page that shows a specification and needs nothing from elsewhere."""
    bundle = _converter().javascript_bundle(vl_version=_version())
    # in a script only these characters could end it, or begin something else
    data = json.dumps(vega_lite, allow_nan=False)
    for character in "<>&\u2028\u2029":
        data = data.replace(character, f"\\u{ord(character):04x}")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data: blob:;
 script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'">
<title>Roofline</title>
<style>
body {{ margin: 16px; font: 14px/1.45 system-ui, sans-serif; }}
#roofline {{ width: 100%; overflow-x: auto; }}
.vega-bindings {{ display: flex; flex-wrap: wrap; gap: 4px 20px; }}
</style>
</head>
<body>
<div id="roofline"></div>
<script>{bundle}</script>
<script>
vegaEmbed("#roofline", {data}, {{ loader: {{ http: false }} }})
  .then((result) => {{ window.view = result.view; }})
  .catch((error) => {{ document.body.append(String(error)); }});
</script>
</body>
</html>
"""


def _altair() -> Any:
    try:
        import altair
    except ImportError:
        raise BadInput(f"interactive pictures need altair, which is not installed; {_EXTRA}") from None
    return altair


def _converter() -> Any:
    try:
        import vl_convert
    except ImportError:
        raise BadInput(
            f"the formats vega and html need vl-convert-python, which is not installed; {_EXTRA}, "
            "or take --format vega-lite"
        ) from None
    return vl_convert


def _version() -> str:
    """Return the version of Vega-Lite that altair speaks, as far as vl-convert has it."""
    wanted = _altair().SCHEMA_VERSION.removeprefix("v").split(".")
    known = _converter().get_vegalite_versions()
    same = [one for one in known if one.split(".")[0] == wanted[0]]
    exact = ".".join(wanted[:2])
    if exact in same:
        return exact
    if not same:
        raise BadInput(
            f"altair speaks Vega-Lite {exact}, vl-convert-python {', '.join(known)}; {_EXTRA} --upgrade"
        )
    return str(same[-1])


def _chart(results: Results) -> altair.LayerChart:
    alt = _altair()
    shown = panels.picture(results)
    data = rows.rows(shown.panels, results)
    pick = alt.selection_point(name="pick", fields=["key"], on="click", empty=True)
    zoom = alt.selection_interval(name="zoom", bind="scales")
    looks = _looks(alt, data, pick)
    lines, *others = _roof_layers(alt, data, looks)
    below, points, above = _dot_layers(alt, data, looks, pick)
    heading = alt.TitleParams(
        shown.title,
        subtitle=[shown.subtitle, "drag to pan, wheel to zoom, point for numbers, click to pick"],
        anchor="start",
    )
    found: altair.LayerChart = (
        alt.layer(lines.add_params(zoom), *others, *below, points.add_params(pick), above)
        .add_params(*_switches(alt, [panel.title for panel in shown.panels]))
        .properties(width=rows.WIDTH, height=rows.HEIGHT, title=heading)
        .configure_view(strokeWidth=0)
    )
    return found


def _switches(alt: Any, titles: Sequence[str]) -> Iterator[Any]:
    """Return what the reader can set: the panel, a name to look for, and what is shown."""
    menu = alt.binding_select(options=list(titles), name="precision, threads ")
    yield alt.param(name="panel", value=titles[0], bind=menu)
    yield alt.param(name="search", value="", bind=alt.binding(input="search", name="filter by name "))
    for level, text in rows.LEVELS.items():
        box = alt.binding_checkbox(name=f"{text} ")
        yield alt.param(name=f"show_{level}", value=level == "dram", bind=box)
    for name, text in (("lower", "lower ceilings "), ("declared", "declared ")):
        yield alt.param(name=f"show_{name}", value=True, bind=alt.binding_checkbox(name=text))


_HERE = "datum.panel === panel"
_LEVEL_SHOWN = " || ".join(
    [f"(datum.level === '{text}' && show_{level})" for level, text in rows.LEVELS.items()]
    + [f"(datum.level === '{rows.NO_TRAFFIC}' && show_dram)"]
)
_NAMED = "(search === '' || indexof(lower(datum.kernel), lower(search)) >= 0)"
_DOT_SHOWN = f"{_HERE} && {_NAMED} && ({_LEVEL_SHOWN})"
_ROOF_SHOWN = f"{_HERE} && (datum.level === '' || {_LEVEL_SHOWN}) && (datum.roof || show_lower)"
_APART = f"datum.level === '{rows.NO_TRAFFIC}'"


_SEVERAL = f"({' + '.join(f'show_{level}' for level in rows.LEVELS)}) > 1"
"""Whether the dots of more than one boundary are shown, so that each has its boundary's colour around it."""

_SHAPES = {"o": "circle", "D": "diamond", "s": "square", "^": "triangle-up"}


def _looks(alt: Any, data: rows.Rows, pick: Any) -> dict[str, Any]:
    """Return the encodings that layers share."""

    def scale(limits: tuple[float, float]) -> Any:
        return alt.Scale(type="log", domain=list(limits), nice=False)

    def axis(title: str) -> Any:
        return alt.Axis(title=title, format="~g", grid=True, gridOpacity=0.4)

    there = {row["bound"] for row in data.dots}
    bounds = [style.BOUNDS[bound] for bound in ("dram", "l3", "compute", None)]
    bounds = [look for look in bounds if look.words in there or not there]
    words = [look.words for look in bounds]
    shapes = [_SHAPES[look.marker] for look in bounds]
    no_title = alt.Legend(title=None)
    levels = [*rows.LEVELS.values()]
    slopes = [style.slope(level) for level in rows.LEVELS]
    of_levels = alt.Legend(
        title="bytes across", values=levels, symbolType="stroke", symbolStrokeWidth=2.4, symbolSize=160
    )
    return {
        "x": alt.X("intensity:Q", scale=scale(data.x_limits), axis=axis("FLOP per byte")),
        "y": alt.Y("gflops:Q", scale=scale(data.y_limits), axis=axis("GFLOP/s")),
        "color": alt.Color(
            "bound:N",
            scale=alt.Scale(domain=words, range=[look.colour for look in bounds]),
            legend=no_title,
        ),
        "shape": alt.Shape("bound:N", scale=alt.Scale(domain=words, range=shapes), legend=no_title),
        "level": alt.Stroke(
            "level:N",
            scale=alt.Scale(domain=["", rows.NO_TRAFFIC, *levels], range=[style.ROOF, style.LEADER, *slopes]),
            legend=of_levels,
        ),
        "opacity": alt.condition(pick, alt.value(1.0), alt.value(0.15)),
    }


def _roof_layers(alt: Any, data: rows.Rows, looks: dict[str, Any]) -> Iterator[Any]:
    """Return the ceilings and their labels.

    A compute ceiling begins where it meets the highest bandwidth that is shown.
    """
    x, y = looks["x"], looks["y"]
    ridge = ", ".join(f"show_{level} ? datum.ridge_{level} : {rows.FAR}" for level in rows.LEVELS)
    of_roofs = alt.Chart(alt.InlineData(values=list(data.roofs))).transform_filter(_ROOF_SHOWN)
    yield (
        of_roofs.transform_calculate(
            intensity=f"datum.level === '' && datum.step === 0 ? min({ridge}) : datum.intensity"
        )
        .mark_line(clip=True)
        .encode(
            x=x,
            y=y,
            detail="name:N",
            order="step:O",
            strokeWidth=alt.condition("datum.roof", alt.value(2.2), alt.value(0.9)),
            stroke=looks["level"],
            tooltip=[alt.Tooltip("text:N", title="ceiling"), alt.Tooltip("source:N", title="measured")],
        )
    )
    slopes = of_roofs.transform_filter("datum.labelled && datum.level !== ''")
    for angle in {row["angle"] for row in data.roofs if "angle" in row}:
        yield (
            slopes.mark_text(align="left", dy=-6, fontSize=10, angle=angle % 360, clip=True)
            .encode(x="at:Q", y="at_gflops:Q", text="text:N", stroke=alt.value(None))
            .encode(color=alt.value(style.ROOF))
        )
    yield (
        of_roofs.transform_filter("datum.labelled && datum.level === ''")
        .mark_text(align="right", dy=-6, fontSize=10, color=style.ROOF, clip=True)
        .encode(x=alt.value(rows.WIDTH - 60), y=y, text="text:N")
    )


def _dot_layers(alt: Any, data: rows.Rows, looks: dict[str, Any], pick: Any) -> tuple[list[Any], Any, Any]:
    """Return what is drawn below the dots, the dots, and the name of a picked one above them."""
    place = {name: looks[name] for name in ("x", "y")}
    plain = {name: looks[name] for name in ("color", "opacity")}
    of_dots = alt.Chart(alt.InlineData(values=list(data.dots))).transform_filter(_DOT_SHOWN)
    apart = of_dots.transform_filter(_APART)
    claimed = of_dots.transform_filter(
        f"show_declared && datum.declared_intensity > 0 && (datum.level === 'DRAM' || {_APART})"
    )
    claim = {"x": alt.X("declared_intensity:Q"), "y": "declared_gflops:Q"}
    edge_text = (
        apart.transform_aggregate(intensity="max(intensity)", groupby=["panel"])
        .mark_text(align="right", dx=-5, fontSize=10, color=style.LOWER, clip=True)
        .encode(x=looks["x"], y=alt.value(rows.HEIGHT - 8), text=alt.value(rows.NO_TRAFFIC))
    )
    below = [
        apart.mark_rule(clip=True, strokeDash=[2, 4], color=style.LEADER).encode(x=looks["x"]),
        edge_text,
        of_dots.transform_filter(f"!({_APART})")
        .mark_line(clip=True, strokeWidth=0.8, color=style.LEADER)
        .encode(**place, detail="key:N", opacity=looks["opacity"]),
        claimed.mark_rule(clip=True, strokeWidth=1).encode(**claim, x2="intensity:Q", y2="gflops:Q", **plain),
        claimed.mark_point(clip=True, size=90, filled=False).encode(**claim, **plain, shape=looks["shape"]),
        of_dots.transform_filter("datum.gflops_low > 0 && datum.outermost")
        .mark_rule(clip=True, strokeWidth=1.2)
        .encode(x=looks["x"], y="gflops_low:Q", y2="gflops_high:Q", **plain),
    ]
    known = list(dict.fromkeys(name for row in data.tips for name in row if name != "key"))
    table = alt.LookupData(data=alt.InlineData(values=list(data.tips)), key="key", fields=known)
    points = (
        of_dots.transform_lookup(lookup="key", from_=table)
        .mark_point(clip=True, size=70, filled=True, strokeWidth=0.6)
        .encode(
            **place,
            **plain,
            shape=looks["shape"],
            stroke=alt.condition(_SEVERAL, looks["level"], alt.value("white")),
            strokeWidth=alt.condition(_SEVERAL, alt.value(2.4), alt.value(0.6)),
            tooltip=_tooltips(alt, known),
        )
    )
    picked = (
        of_dots.transform_filter("length(data('pick_store')) > 0")
        .transform_filter(pick)
        .transform_calculate(words="datum.outermost || !show_dram ? datum.kernel : datum.level")
        .mark_text(align="left", dx=8, dy=-6, fontSize=12, clip=True)
        .encode(**place, text="words:N")
    )
    return below, points, picked


def _tooltips(alt: Any, known: Sequence[str]) -> list[Any]:
    """Return what is shown where one points: all numbers that any kernel has."""
    named = [("kernel", "kernel"), ("level", "bytes across"), ("FLOP per byte", "FLOP per byte")]
    named += [(name, name) for name in known]
    return [alt.Tooltip(f"{name}:N", title=title) for name, title in named]
