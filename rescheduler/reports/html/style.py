"""The style sheet of the HTML report, for light and dark screens and for paper."""

from typing import Final

CSS: Final = """
:root { color-scheme: light dark; --ink: #1b1f24; --faint: #667080; --line: #d9dee5; --paper: #fff; --panel: #f6f8fa;
  --accent: #2f6fde; --good: #1a7f45; --bad: #b3412e; --empty: #eef1f5; --ghost: #b9c3d0; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --faint: #98a3b3; --line: #323a46; --paper: #14181e;
  --panel: #1c222b; --accent: #6ea0ff; --good: #58c98a; --bad: #ff8f7a; --empty: #262e39; --ghost: #55606f; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.5rem 4rem; max-width: 78rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
h1 { font-size: 1.7rem; margin: 0; } h2 { font-size: 1.15rem; margin: 2.4rem 0 .6rem; }
p { margin: .3rem 0; } .faint { color: var(--faint); } .good { color: var(--good); } .bad { color: var(--bad); }
.lead { font-size: 1.1rem; font-weight: 600; margin: .8rem 0 0; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: .8rem; margin: 1.4rem 0; }
.card { background: var(--panel); border: 1px solid var(--line); border-radius: .6rem; padding: .7rem .9rem; }
.card b { display: block; font-size: 1.3rem; white-space: nowrap; font-variant-numeric: tabular-nums; }
.card span { color: var(--faint); font-size: .85rem; }
.maps { display: grid; grid-template-columns: repeat(auto-fit, minmax(22rem, 1fr)); gap: 1.2rem; }
figure { margin: 0; } figcaption { color: var(--faint); font-size: .85rem; margin-bottom: .3rem; }
svg { display: block; width: 100%; height: auto; } svg text { fill: var(--ink); font: 11px system-ui, sans-serif; }
svg .small { fill: var(--faint); font-size: 10px; } svg .ghost { fill: none; stroke: var(--ghost); stroke-width: 1; }
svg .track { fill: var(--empty); } svg .mark { fill: none; stroke: var(--ink); }
svg.legend { width: 15rem; margin: .2rem 0 .8rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .88rem; }
th { text-align: left; color: var(--faint); font-weight: 600; border-bottom: 2px solid var(--line); }
th, td { padding: .3rem .6rem .3rem 0; vertical-align: top; } td { border-bottom: 1px solid var(--line); }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
code { font: .92em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; overflow-wrap: anywhere; }
details { border: 1px solid var(--line); border-radius: .5rem; margin: .5rem 0; padding: .45rem .8rem; }
summary { cursor: pointer; } summary b { font-weight: 600; } .warning { color: var(--bad); }
@media print { body { max-width: none; padding: 0; } details { break-inside: avoid; } }
"""
