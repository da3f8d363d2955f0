"""How the report looks: light and dark, on a screen, a phone and paper.

States differ in pattern as well as in colour, and the colours are taken from palettes that the
colour-blind can tell apart (Okabe and Ito's for states, Tol's for brokers).
"""

from __future__ import annotations

from typing import Final

PATTERNS: Final = (
    '<svg width="0" height="0" style="position:absolute" aria-hidden="true"><defs>'
    '<pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect class="hatch-under" width="6" height="6"/>'
    '<rect class="hatch-line" width="2.5" height="6"/></pattern>'
    '<pattern id="stripe" width="5" height="5" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(-45)"><rect class="stripe-under" width="5" height="5"/>'
    '<rect class="stripe-line" width="2" height="5"/></pattern>'
    '<pattern id="veil" width="8" height="8" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect class="veil-line" width="3" height="8"/></pattern>'
    "</defs></svg>"
)
"""Fills of holes, recovered segments and imports; all drawings of the page refer to them."""

STYLE: Final = """
:root{--paper:#fff;--ink:#1b1f24;--soft:#5b6570;--line:#d8dde3;--panel:#f6f8fa;--link:#0b5cad;
--f:#0072b2;--r:#009e73;--r2:#7fdcc0;--u:#b5d3ea;--u2:#4a86b4;--s:#e69f00;--d:#a0527f;
--x:#8a939c;--h:#c63d00;--h2:#ffe9dd;--o:#c63d00;--alarm:#a83200;--alarm2:#fff0e6;
--b0:#33228a;--b1:#88ccee;--b2:#11773a;--b3:#ddcc77;--b4:#88225a;--b5:#44aa99;--b6:#cc6677;
--b7:#99993a}
@media (prefers-color-scheme:dark){:root{--paper:#14181d;--ink:#e4e8ec;--soft:#9aa5b1;
--line:#343c45;--panel:#1c2229;--link:#7cb8f2;--f:#4a9fd8;--r:#1fb58a;--r2:#0b5f47;--u:#23455f;
--u2:#6ea9d3;--s:#f0b429;--d:#d28ab5;--x:#7b8794;--h:#ff8a4c;--h2:#43281a;--o:#ff8a4c;
--alarm:#ffb086;--alarm2:#3b2417;--b0:#8f83e0;--b2:#3f9f5c;--b4:#c25590}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1600px;padding:1.25rem;background:var(--paper);color:var(--ink);
font:14px/1.45 system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
h1{font-size:1.6rem;margin:0 0 .75rem;overflow-wrap:anywhere}
h2{font-size:1.05rem;margin:0;display:inline;overflow-wrap:anywhere}
code{font-size:.85em;color:var(--soft);overflow-wrap:anywhere}
a{color:var(--link)}
:focus-visible{outline:2px solid var(--link);outline-offset:1px}
.facts{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem;margin:0 0 1rem}
.facts dt{color:var(--soft)}
.facts dd{margin:0;overflow-wrap:anywhere}
.tiles,.legend{list-style:none;margin:0 0 1rem;padding:0;display:flex;flex-wrap:wrap}
.tiles{gap:.5rem}
.tiles li{border:1px solid var(--line);background:var(--panel);border-radius:6px;
padding:.4rem .7rem;min-width:5.6rem}
.tiles b{display:block;font-size:1.2rem;font-variant-numeric:tabular-nums}
.tiles span{color:var(--soft)}
li.alarm,.chip.alarm,td.alarm{background:var(--alarm2);color:var(--alarm)}
li.alarm{border-color:var(--alarm)}
li.alarm span{color:inherit}
.legend{gap:.35rem 1.1rem;color:var(--soft)}
.legend svg{margin-right:.4rem;vertical-align:-1px}
.controls{display:flex;flex-wrap:wrap;gap:.5rem 1rem;align-items:center;margin:0 0 .75rem;
padding:.5rem 0;position:sticky;top:0;background:var(--paper);z-index:3;
border-bottom:1px solid var(--line)}
.controls[hidden],.zoom[hidden]{display:none}
input[type=search]{font:inherit;padding:.3rem .5rem;width:min(19rem,60vw);color:inherit;
background:var(--panel);border:1px solid var(--line);border-radius:5px}
button{font:inherit;color:inherit;background:var(--panel);border:1px solid var(--line);
border-radius:5px;padding:.2rem .6rem;cursor:pointer}
output{color:var(--soft)}
.scroll{overflow-x:auto;max-width:100%}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin-bottom:1.25rem}
th,td{padding:.2rem .5rem;text-align:right;white-space:nowrap;
border-bottom:1px solid var(--line)}
th:first-child,td:first-child{text-align:left}
tbody th{font-weight:500;max-width:24rem;overflow:hidden;text-overflow:ellipsis}
thead button{border:0;background:none;padding:0;font-weight:600}
thead [aria-sort=ascending] button:after{content:" \\2191"}
thead [aria-sort=descending] button:after{content:" \\2193"}
td.nil{color:var(--soft);opacity:.55}
.partition{border:1px solid var(--line);border-radius:8px;margin:0 0 .9rem;
padding:.6rem .8rem;scroll-margin-top:3.5rem;content-visibility:auto;
contain-intrinsic-size:auto 320px;position:relative}
.partition>summary{cursor:pointer;padding-right:11rem}
.partition:target{border-color:var(--link)}
.chips{display:inline-flex;flex-wrap:wrap;gap:.25rem;margin-left:.3rem;vertical-align:middle}
.chip{border-radius:9px;padding:0 .5rem;background:var(--panel);color:var(--soft);
font-size:.85em;border-left:0 solid}
.chip.f,.chip.r,.chip.u,.chip.s,.chip.d,.chip.x{border-left-width:9px;color:var(--ink)}
.chip.f{border-color:var(--f)}.chip.r{border-color:var(--r)}.chip.u{border-color:var(--u2)}
.chip.s{border-color:var(--s)}.chip.d{border-color:var(--d)}.chip.x{border-color:var(--x)}
.zoom{position:absolute;top:.5rem;right:.7rem;display:flex;gap:.2rem}
.plot{--zoom:1;width:calc(100%*var(--zoom));margin-top:.6rem}
.lane{display:grid;grid-template-columns:14rem 1fr;border-top:1px solid var(--line);
padding:1px 0}
.lane.scale{border-top:0}
.lane svg{display:block;overflow:visible}
.label{position:sticky;left:0;z-index:1;background:var(--paper);padding-right:.6rem;
line-height:1.3;font-size:12px}
.label b{font-weight:600;white-space:nowrap}
.label span{color:var(--soft)}
.folded>summary,.list>summary{cursor:pointer;color:var(--soft);margin:.3rem 0}
.note{color:var(--soft);margin:.4rem 0 0}
.list th,.list td{font-size:12px}
rect.f{fill:var(--f)}
rect.r{fill:url(#stripe)}
rect.u{fill:var(--u);stroke:var(--u2)}
rect.s{fill:var(--paper);stroke:var(--s);stroke-width:2;stroke-dasharray:4 2}
rect.d{fill:var(--d)}
rect.x{fill:none;stroke:var(--x);stroke-width:1;pointer-events:all}
rect.h{fill:url(#hatch)}
rect.o{fill:var(--o)}
rect.c{fill:var(--soft)}
rect.flag{fill:var(--alarm)}
rect.f,rect.r,rect.d{stroke:var(--paper);stroke-width:1}
.plot:not(.zoomed) .dense rect{stroke-width:0}
.plot:not(.zoomed) .dense rect.s{fill:var(--s)}
.plot:not(.zoomed) .dense rect.x{fill:var(--x)}
rect:hover,rect.at{filter:brightness(1.25) contrast(1.3)}
svg rect.at{stroke:var(--ink);stroke-width:2;stroke-dasharray:none}
line{stroke:var(--soft)}
line.g{stroke:var(--line);stroke-dasharray:2 3}
text{fill:var(--soft);font-size:11px;pointer-events:none;font-variant-numeric:tabular-nums}
text.on{fill:#fff;font-size:11px}
text.on.b1,text.on.b3,text.on.b5,text.on.b6,text.on.b7{fill:#10141a}
@media (prefers-color-scheme:dark){text.on{fill:#10141a}}
.dispute{fill:var(--alarm);pointer-events:none}
.import{fill:url(#veil);pointer-events:none}
.hatch-under{fill:var(--h2)}.hatch-line{fill:var(--h)}
.stripe-under{fill:var(--r)}.stripe-line{fill:var(--r2)}
.veil-line{fill:#fff;opacity:.22}
rect.b{fill:var(--soft);stroke:var(--paper);stroke-width:1}
rect.b0{fill:var(--b0)}rect.b1{fill:var(--b1)}rect.b2{fill:var(--b2)}rect.b3{fill:var(--b3)}
rect.b4{fill:var(--b4)}rect.b5{fill:var(--b5)}rect.b6{fill:var(--b6)}rect.b7{fill:var(--b7)}
#tip{position:fixed;z-index:9;max-width:min(26rem,92vw);padding:.5rem .7rem;border-radius:6px;
background:var(--ink);color:var(--paper);font-size:12.5px;pointer-events:none;
overflow-wrap:anywhere;box-shadow:0 2px 10px #000a}
#tip dl{display:grid;grid-template-columns:max-content 1fr;gap:0 .7rem;margin:0}
#tip dt{opacity:.7}
#tip dd{margin:0}
@media (max-width:720px){
body{padding:.6rem}
.controls{position:static}
.partition{padding:.5rem}
.partition>summary{padding-right:0}
.zoom{position:static;margin-top:.4rem}
.lane{grid-template-columns:1fr}
.label{position:static}
.label br{display:none}
.scale .label,text.on,text.inner{display:none}
}
@media print{
body{max-width:none;padding:0;font-size:10px}
.script,#tip{display:none!important}
.partition{content-visibility:visible;border-color:#9a9a9a}
.lane,tr{break-inside:avoid}
.scroll{overflow:visible}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}
}
"""
