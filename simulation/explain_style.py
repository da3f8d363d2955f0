"""How the page of a run looks: light and dark, on a screen and on paper.

Epochs take the colours that the report gives to brokers (Tol's, which the colour-blind can tell
apart), darker on white where they are thin lines; the script reads all of them from here, so
that the canvas changes with the page.
"""

from __future__ import annotations

from typing import Final

EPOCH_COLOURS: Final = 8
"""After these they come again, striped; an epoch's number stands beside its colour anyway."""

STYLE: Final = """
:root{--paper:#fff;--ink:#1b1f24;--soft:#5b6570;--line:#d8dde3;--panel:#f6f8fa;--link:#0b5cad;
--good:#007a5a;--doubt:#b36b00;--alarm:#b02a00;--alarm2:#fff0e6;--found:#ffd54a;--gone:#e3e6ea;
--e0:#33228a;--e1:#88ccee;--e2:#11773a;--e3:#ddcc77;--e4:#88225a;--e5:#44aa99;--e6:#cc6677;
--e7:#99993a;--on0:#fff;--on1:#10141a;--on2:#fff;--on3:#10141a;--on4:#fff;--on5:#10141a;
--on6:#10141a;--on7:#10141a;--t0:#33228a;--t1:#2a86b8;--t2:#11773a;--t3:#9c8316;--t4:#88225a;
--t5:#2a8f80;--t6:#c04a58;--t7:#77771c;color-scheme:light}
@media (prefers-color-scheme:dark){:root{--paper:#14181d;--ink:#e4e8ec;--soft:#9aa5b1;
--line:#343c45;--panel:#1c2229;--link:#7cb8f2;--good:#35c79a;--doubt:#f0b429;--alarm:#ff9a70;
--alarm2:#3b2417;--found:#b58a00;--gone:#262c33;--e0:#8f83e0;--e2:#3f9f5c;--e4:#c25590;
--on0:#10141a;--on2:#10141a;--on4:#10141a;--t0:#8f83e0;--t1:#88ccee;--t2:#3f9f5c;--t3:#ddcc77;
--t4:#c25590;--t5:#44aa99;--t6:#cc6677;--t7:#99993a;color-scheme:dark}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:2200px;padding:1.25rem;background:var(--paper);color:var(--ink);
font:14px/1.45 system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
h1{font-size:1.5rem;margin:0 0 .5rem;overflow-wrap:anywhere}
h2{font-size:1.05rem;margin:1.4rem 0 .5rem}
code,.mono{font-family:ui-monospace,"DejaVu Sans Mono",monospace;font-size:.92em}
a{color:var(--link)}
:focus-visible{outline:2px solid var(--link);outline-offset:1px}
button,select,input{font:inherit;color:inherit;background:var(--panel);
border:1px solid var(--line);border-radius:5px;padding:.2rem .55rem}
button,select{cursor:pointer}
[hidden]{display:none!important}
.repeat{display:flex;gap:.6rem;align-items:center;margin:0 0 .8rem}
.repeat code{background:var(--panel);border:1px solid var(--line);border-radius:5px;
padding:.25rem .6rem;overflow-wrap:anywhere}
.verdict{border:1px solid var(--alarm);background:var(--alarm2);color:var(--alarm);
border-radius:8px;padding:.6rem .9rem;margin:0 0 .9rem}
.verdict h2{margin:0 0 .2rem}
.verdict ol{margin:0;padding-left:1.6rem;max-height:16rem;overflow:auto}
.verdict li{overflow-wrap:anywhere}
.verdict.clean{border-color:var(--line);background:var(--panel);color:var(--soft)}
.facts{color:var(--soft);margin:0 0 .9rem}
.tools{display:flex;flex-wrap:wrap;gap:.4rem .9rem;align-items:center;margin:0 0 .5rem}
.tools .group{display:inline-flex;gap:.25rem;align-items:center}
.tools output{color:var(--soft);font-variant-numeric:tabular-nums}
.tools input{width:14rem}
#overview{display:block;width:100%;height:40px;border:1px solid var(--line);border-radius:6px;
cursor:grab;touch-action:none;margin-bottom:.4rem}
.stage{position:relative;display:grid;grid-template-columns:8.5rem 1fr;
border:1px solid var(--line);border-radius:8px;overflow:hidden}
#names{position:relative;border-right:1px solid var(--line);background:var(--panel)}
#names>*{position:absolute;left:0;right:0;white-space:nowrap;overflow:hidden;
text-overflow:ellipsis;padding:0 .6rem}
#names .kind{font-size:11px;color:var(--soft);line-height:16px}
#names button{border:0;background:none;text-align:left;font-weight:600;line-height:24px;
border-radius:0}
#names button[aria-pressed=true]{background:var(--link);color:var(--paper)}
#picture{display:block;width:100%;cursor:crosshair;touch-action:pan-y}
#picture.drags{cursor:grabbing}
#picture:focus-visible{outline-offset:-2px}
.note{color:var(--soft);margin:.35rem 0}
.warn{color:var(--doubt)}
fieldset{border:1px solid var(--line);border-radius:8px;margin:.5rem 0 0;
padding:.3rem .7rem .5rem;display:flex;flex-wrap:wrap;gap:.3rem .35rem;align-items:center}
legend{color:var(--soft);padding:0 .3rem}
.chip{display:inline-flex;align-items:center;gap:.35rem;border-radius:11px;padding:.05rem .6rem}
.chip[aria-pressed=false]{opacity:.45;text-decoration:line-through}
.chip b{font-weight:400;color:var(--soft);font-variant-numeric:tabular-nums}
.chip svg,.key svg{flex:none;overflow:visible}
.key{display:inline-flex;align-items:center;gap:.35rem;color:var(--soft);margin-right:.6rem}
.stroke{fill:none;stroke-width:2;stroke-linecap:round;stroke-linejoin:round}
.epochs i{border-radius:3px;padding:0 .5rem;font-style:normal}
#pinned{border:1px solid var(--line);border-radius:8px;padding:.5rem .8rem;margin:.5rem 0 0;
min-height:4.2rem;max-height:20rem;overflow:auto;display:grid;align-items:start;
grid-template-columns:repeat(auto-fill,minmax(min(20rem,100%),1fr));gap:.5rem 1.5rem}
#pinned .note{margin:0;grid-column:1/-1}
#tip{position:fixed;z-index:9;max-width:min(32rem,92vw);padding:.45rem .7rem;border-radius:6px;
background:var(--ink);color:var(--paper);font-size:12.5px;pointer-events:none;
overflow-wrap:anywhere;box-shadow:0 2px 10px #000a}
.thing{display:grid;grid-template-columns:max-content 1fr;gap:0 .7rem;margin:0;
overflow-wrap:anywhere}
#tip .thing+.thing{border-top:1px solid var(--line);margin-top:.3rem;padding-top:.3rem}
.thing dt{opacity:.7}
.thing dd{margin:0}
#decisions{margin:0;padding-left:2.2rem;max-height:32rem;overflow:auto}
#decisions li{padding:.05rem 0;overflow-wrap:anywhere}
summary{cursor:pointer;color:var(--soft)}
.scroll{overflow:auto;max-height:36rem}
table{border-collapse:collapse;font-size:12.5px;font-variant-numeric:tabular-nums}
th,td{padding:.12rem .6rem;text-align:left;white-space:nowrap;
border-bottom:1px solid var(--line)}
th{position:sticky;top:0;background:var(--paper)}
th:first-child,td:first-child,td:nth-child(4){text-align:right}
td:last-child{white-space:normal;overflow-wrap:anywhere;min-width:16rem}
@media (max-width:720px){body{padding:.6rem}.stage{grid-template-columns:5.5rem 1fr}
#names>*{padding:0 .3rem}}
@media print{body{max-width:none;padding:0}.tools,#tip,.repeat button{display:none!important}
.scroll,#decisions,.verdict ol{max-height:none}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
"""
