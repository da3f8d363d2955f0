"""How a job's page looks, beyond what it shares with the report."""

from __future__ import annotations

from typing import Final

JOB_STYLE: Final = """
:root{--good:#1a9a6c;--warn:#e69f00;--idle:#8a939c;--idle2:#d9dee3;--open2:#e3f0fa}
@media (prefers-color-scheme:dark){:root{--good:#2bb583;--warn:#f0b429;--idle:#7b8794;
--idle2:#3a434d;--open2:#17303f}}
section{margin:0 0 1.75rem}
section>h2{display:block;margin:0 0 .3rem;padding-bottom:.25rem;
border-bottom:1px solid var(--line)}
section>.note{margin:.2rem 0 .6rem;max-width:72ch}
section>.tiles,section>.legend{margin-top:.5rem}
rect.good{fill:var(--good)}
rect.bad{fill:url(#hatch);stroke:var(--h);stroke-width:1}
rect.warn{fill:var(--warn)}
rect.idle{fill:var(--idle)}
rect.open{fill:var(--open2);stroke:var(--f);stroke-width:1.5;stroke-dasharray:4 2}
rect.good,rect.warn,rect.idle{stroke:var(--paper);stroke-width:1}
rect.dense{stroke-width:0}
.plot text{fill:var(--ink)}
.plot .axis text{fill:var(--soft)}
.lane{grid-template-columns:17rem 1fr;padding:3px 0;align-items:center}
.label b{white-space:normal;overflow-wrap:anywhere}
.label span{display:inline-block}
table.rows td,table.rows th{text-align:left;white-space:normal;overflow-wrap:anywhere;
vertical-align:top}
table.rows td.n{text-align:right;white-space:nowrap}
table.rows td:first-child{min-width:8rem}
table.rows td:nth-child(2){white-space:nowrap}
table.rows thead th{color:var(--soft);font-weight:600;white-space:nowrap}
table.rows tbody tr:hover{background:var(--panel)}
@media (max-width:720px){.lane{grid-template-columns:1fr}.label{position:static}}
@media print{body{max-width:none}section{break-inside:auto}}
"""
