"""The style sheet of all reports, for print and for light and dark screens."""

from __future__ import annotations

#: Line colours that most readers can distinguish, on white and in print; `_DARK` on black.
_LIGHT = ("#0b62a4", "#c2571a", "#3d7f2b", "#8a3f8f", "#8c6d1f", "#16808a", "#b0304f", "#555b66")
_DARK = ("#5aa9e6", "#f0955a", "#7cc46b", "#c792d8", "#d6b45c", "#55c2cb", "#ef7d95", "#a8b0b8")
COLOURS = len(_LIGHT)


def _lines(colours: tuple[str, ...]) -> str:
    return " ".join(f"--line-{number}: {colour};" for number, colour in enumerate(colours))


STYLE = (
    ":root { color-scheme: light dark; --ink: #1d2530; --quiet: #5a6675; --paper: #fff; --rule: #e3e8ee; --tile: #f5f7f9;"
    " --axis: #9aa5b1; --pass: #23713c; --fail: #b1262d; --harm: #b03a1e; --span: #f6cfc1; "
    + _lines(_LIGHT)
    + " }\n@media (prefers-color-scheme: dark) { :root { --ink: #e4e9ef; --quiet: #9aa7b5; --paper: #12171d; --rule: #2b343e;"
    " --tile: #1b222a; --axis: #66727f; --pass: #1f7a41; --fail: #b3363c; --harm: #ff9b80; --span: #56352b; "
    + _lines(_DARK)
    + " } }\n"
    + "\n".join(f".line-{number} {{ --line: var(--line-{number}); }}" for number in range(COLOURS))
    + """
body { font: 15px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; color: var(--ink); background: var(--paper);
  margin: 0 auto; max-width: 940px; padding: 28px 24px 60px; }
h1 { font-size: 26px; margin: 0 0 2px; } h2 { font-size: 19px; margin: 38px 0 8px; } h3 { font-size: 15px; margin: 20px 0 0; }
.note { color: var(--quiet); }
.verdict { border-radius: 8px; padding: 14px 18px; margin: 16px 0; color: #fff; font-size: 17px; }
.verdict b { font-size: 21px; margin-right: 12px; } .pass { background: var(--pass); } .fail { background: var(--fail); }
.fault { color: var(--harm); font-weight: 600; }
.tiles { display: flex; flex-wrap: wrap; gap: 10px; margin: 14px 0 0; }
.tiles div { background: var(--tile); border-radius: 8px; padding: 8px 14px; min-width: 92px; }
.tiles b { display: block; font-size: 20px; font-variant-numeric: tabular-nums; }
.tiles span { color: var(--quiet); font-size: 13px; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; margin: 8px 0; }
th { text-align: left; color: var(--quiet); font-weight: 600; }
th, td { padding: 5px 12px 5px 0; border-bottom: 1px solid var(--rule); vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; } td.n { white-space: nowrap; }
td.n + td:not(.n), th.n + th:not(.n) { padding-left: 12px; }
tr.harm td { color: var(--harm); font-weight: 600; }
svg { display: block; width: 100%; height: auto; margin: 6px 0 0; }
svg text { font: 12px system-ui, sans-serif; fill: var(--quiet); }
svg .grid { stroke: var(--rule); } svg .axis { stroke: var(--axis); } svg .span { fill: var(--span); }
svg .line { fill: none; stroke: var(--line); stroke-width: 1.8; stroke-linejoin: round; } svg .dot { fill: var(--line); }
svg .bar { fill: var(--line-0); } svg .bar.other { fill: var(--line-1); } .wide svg { min-width: 620px; }
svg line.mark { stroke: var(--harm); stroke-dasharray: 3 3; } svg text.mark { fill: var(--harm); font-weight: 600; }
.legend { margin: 2px 0 0; font-size: 13px; color: var(--quiet); } .legend span { margin-right: 18px; white-space: nowrap; }
.legend i { display: inline-block; width: 14px; height: 4px; margin-right: 6px; vertical-align: middle;
  background: var(--line); }
.legend i.span { background: var(--span); height: 12px; }
"""
)
