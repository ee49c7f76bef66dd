/** Colors with a contrast of at least 4.5 to 1 to their background, in light and dark mode. */
const COLORS = `
:root{color-scheme:light dark;--paper:#f6f4ee;--sheet:#fffefb;--ink:#18231d;--soft:#55635b;--line:#dfdcd0;--tree:#1c6b47;--tree-soft:#cfe3d6;--bottle:#1f628c;--accent:#a4501f;--shadow:0 1px 2px #18231d12,0 8px 24px #18231d0d}
@media (prefers-color-scheme:dark){:root{--paper:#0e1512;--sheet:#151e1a;--ink:#e9efe9;--soft:#a3b2a9;--line:#2a3731;--tree:#6fca9b;--tree-soft:#1f3a2d;--bottle:#7dbde6;--accent:#f0a676;--shadow:none}}
`;

const BASE = `
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:400 1rem/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif;-webkit-text-size-adjust:100%;overflow-wrap:break-word}
a{color:var(--tree);text-underline-offset:.18em}
a:focus-visible,summary:focus-visible{outline:3px solid var(--accent);outline-offset:3px;border-radius:4px}
img,svg{display:block;max-width:100%}
.number{font-family:ui-serif,"Iowan Old Style",Palatino,Georgia,serif;font-variant-numeric:lining-nums tabular-nums;letter-spacing:-.02em;line-height:1.05}
`;

/** In characters, with separators and units. */
export const LONGEST_NUMBER = 28;

/** The length of a number by its class, so that large numbers fit their column. */
const LETTERS = Array.from(
  { length: LONGEST_NUMBER },
  (_, index) => `.letters-${index + 1}{--letters:${index + 1}}`,
).join("");

/** One column on a phone, a grid on a desktop. */
export const PAGE_STYLE = `${COLORS}${BASE}${LETTERS}
.skip{position:absolute;left:-100rem;top:.5rem;background:var(--sheet);padding:.5rem 1rem;z-index:1}
.skip:focus{left:.5rem}
header,main,footer{max-width:68rem;margin:0 auto;padding:0 1.25rem}
header{padding-top:clamp(2rem,6vw,4.5rem);padding-bottom:1.75rem}
.kicker{margin:0 0 .6rem;color:var(--accent);font-size:.8125rem;font-weight:650;letter-spacing:.09em;text-transform:uppercase}
h1{margin:0;font:600 clamp(2.1rem,6.2vw,3.9rem)/1.06 ui-serif,"Iowan Old Style",Palatino,Georgia,serif;letter-spacing:-.022em;text-wrap:balance}
.lead{margin:.9rem 0 0;max-width:44rem;color:var(--soft);font-size:1.0625rem}
h2{margin:0 0 1.1rem;font:600 1.5rem/1.2 ui-serif,"Iowan Old Style",Palatino,Georgia,serif;letter-spacing:-.01em}
h2.label{margin:0;font-family:inherit;font-size:.875rem;line-height:1.5;font-weight:600;letter-spacing:0;color:var(--soft)}
section{margin-top:clamp(2.25rem,5vw,3.5rem)}
.sheet{background:var(--sheet);border:1px solid var(--line);border-radius:14px;box-shadow:var(--shadow);padding:clamp(1.1rem,3vw,1.75rem)}
.notice{border-left:4px solid var(--accent);padding:.85rem 1.1rem;margin:0 0 1.25rem;background:var(--sheet);border-radius:0 10px 10px 0;font-size:.9375rem}
.facts{display:grid;gap:1rem;grid-template-columns:1fr;margin-top:0}
.fact{container-type:inline-size;--most:clamp(2.2rem,6vw,3rem);--room:100cqi}
.fact .number{color:var(--ink);margin:.35rem 0 .3rem;font-size:min(var(--most),calc(var(--room)/(var(--letters)*.62)));font-weight:600}
.fact p{margin:0;color:var(--soft);font-size:.9375rem}
.trees .pair{display:grid;gap:1.1rem 2.5rem;grid-template-columns:1fr}
.fact.trees{--most:clamp(2.7rem,9vw,4.4rem)}
.trees .proven p.number{color:var(--tree)}
.track{width:100%;height:12px;margin:1.35rem 0 .6rem;border-radius:6px}
.track .whole{fill:var(--tree-soft)}.track .part{fill:var(--tree)}.track .simulated{fill:var(--tree);fill-opacity:.4}
.chart{margin:0}
.chart+.chart{margin-top:2rem}
.chart figcaption{margin-bottom:.75rem}
.chart figcaption span{display:block;color:var(--soft);font-size:.875rem}
.chart svg{width:100%;height:150px}
.chart .grid{stroke:var(--line);stroke-width:1;fill:none;vector-effect:non-scaling-stroke}
.chart.trees rect{fill:var(--tree)}.chart.bottles rect{fill:var(--bottle)}
.axis{display:grid;grid-template-columns:repeat(12,1fr);margin-top:.4rem;color:var(--soft);font-size:.75rem;text-align:center}
@media (max-width:32rem){.axis span{font-size:.625rem}}
details{margin-top:1.25rem}
summary{cursor:pointer;color:var(--tree);font-weight:600;width:fit-content}
table{width:100%;border-collapse:collapse;margin-top:.75rem;font-size:.9375rem}
caption{text-align:left;color:var(--soft);padding-bottom:.4rem}
th,td{padding:.45rem .6rem .45rem 0;min-width:4.5rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
td.count,th.count{text-align:right;padding:.45rem 0 .45rem .8rem;white-space:nowrap;font-variant-numeric:tabular-nums}
.scroll{overflow-x:auto}
.scroll th:first-child{min-width:9rem}
.map{width:100%;height:auto}
.site{fill:var(--accent);fill-opacity:.8;stroke:var(--sheet);stroke-width:2}
.sites{list-style:none;margin:1rem 0 0;padding:0;display:grid;gap:0 2.5rem}
.sites li{display:flex;justify-content:space-between;gap:1rem;padding:.6rem 0;border-top:1px solid var(--line)}
.sites div{min-width:0}
.sites span{display:block;color:var(--soft);font-size:.875rem}
.sites b{font-variant-numeric:tabular-nums;white-space:nowrap}
.photos{list-style:none;margin:0;padding:0;display:grid;gap:1rem;grid-template-columns:repeat(2,1fr)}
.photos a{display:block;border-radius:12px;overflow:hidden;background:var(--tree-soft)}
.photos img{width:100%;height:auto;aspect-ratio:4/3;object-fit:cover}
.photos p{margin:.45rem 0 0;font-size:.875rem;line-height:1.35}
.photos span{display:block;color:var(--soft)}
dl{margin:0}
dt{font-weight:650;margin-top:1rem}
dt:first-child{margin-top:0}
dd{margin:.15rem 0 0;color:var(--soft);max-width:48rem}
footer{margin-top:3.5rem;padding-top:1.25rem;padding-bottom:3rem;border-top:1px solid var(--line);color:var(--soft);font-size:.875rem}
footer p{margin:.2rem 0}
@media (min-width:46rem){.facts{grid-template-columns:repeat(3,1fr)}.fact.trees{grid-column:1/-1;--room:calc(50cqi - 1.25rem)}.trees .pair{grid-template-columns:auto auto;justify-content:start}.photos{grid-template-columns:repeat(4,1fr)}.sites{grid-template-columns:1fr 1fr}}
@media (max-width:32rem){.site{transform-box:fill-box;transform-origin:center;transform:scale(1.7)}}
@media print{.sheet{box-shadow:none}}
`;

export const CARD_STYLE = `${COLORS}${BASE}${LETTERS}
body{background:var(--sheet)}
main{display:grid;align-content:space-between;min-height:100vh;padding:.85rem 1.1rem;gap:.5rem}
h1{margin:0;font-size:.9375rem;font-weight:650;display:-webkit-box;-webkit-line-clamp:2;-webkit-box-orient:vertical;overflow:hidden}
p.number{margin:0;color:var(--ink);font-size:min(2.15rem,calc((100vw - 2.2rem)/(var(--letters)*.62)));font-weight:600}
p{margin:0;color:var(--soft);font-size:.8125rem;line-height:1.4}
p b{color:var(--tree)}
`;
