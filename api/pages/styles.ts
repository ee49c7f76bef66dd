import { BACKGROUNDS, brandColorsOf, mixColors } from "../../modules/accounts/brandColor.rules.ts";
import type { Appearance, BrandColors } from "../../modules/accounts/brandColor.rules.ts";

/** The colors of text and lines beside those of the organization, legible on the backgrounds of each mode. */
const LIGHT = `--paper:${BACKGROUNDS.light.paper};--sheet:${BACKGROUNDS.light.sheet};--ink:#18231d;--soft:#55635b;--line:#dfdcd0;--accent:#a4501f;--shadow:0 1px 2px #18231d12,0 8px 24px #18231d0d`;
const DARK = `--paper:${BACKGROUNDS.dark.paper};--sheet:${BACKGROUNDS.dark.sheet};--ink:#e9efe9;--soft:#a3b2a9;--line:#2a3731;--accent:#f0a676;--shadow:none`;

/** Paper is white, so only screens have a dark mode. */
const DARK_MODE = "@media screen and (prefers-color-scheme:dark)";

const COLORS = `
:root{color-scheme:light dark;${LIGHT}}
${DARK_MODE}{:root{${DARK}}}
`;

const DEFAULT_COLORS: BrandColors = { light: "#1c6b47", dark: "#6fca9b" };

/** How much of the color is in the background of a bar. */
const SOFT_SHARE = 0.22;

export const colorsOf = (color: string | null): BrandColors =>
  color === null ? DEFAULT_COLORS : brandColorsOf(color);

export const brandStyle = (color: string | null): string => {
  const colors = colorsOf(color);
  const declare = (appearance: Appearance): string =>
    `:root{--brand:${colors[appearance]};--brand-soft:${mixColors(colors[appearance], BACKGROUNDS[appearance].sheet, SOFT_SHARE)}}`;
  return `${declare("light")}${DARK_MODE}{${declare("dark")}}`;
};

const SERIF = `ui-serif,"Iowan Old Style",Palatino,Georgia,serif`;

const BASE = `
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:400 1rem/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif;-webkit-text-size-adjust:100%;overflow-wrap:break-word}
a{color:var(--brand);text-underline-offset:.18em}
a:focus-visible,summary:focus-visible{outline:3px solid var(--accent);outline-offset:3px;border-radius:4px}
img,svg{display:block;max-width:100%}
.number{display:block;font-family:${SERIF};font-variant-numeric:lining-nums tabular-nums;letter-spacing:-.02em;line-height:1.05}
`;

/** In characters, with separators and units. */
export const LONGEST_NUMBER = 28;

/** The length of a number by its class, so that large numbers fit their column. */
const LETTERS = Array.from(
  { length: LONGEST_NUMBER },
  (_, index) => `.letters-${index + 1}{--letters:${index + 1}}`,
).join("");

/** The height of a bar by its class, in percent. The Content-Security-Policy forbids style attributes. */
const HEIGHTS = Array.from({ length: 101 }, (_, percent) => `.h-${percent}{--h:${percent}}`).join(
  "",
);

/** What all pages of an organization have. */
const DOCUMENT = `
.skip{position:absolute;left:-100rem;top:.5rem;background:var(--sheet);padding:.5rem 1rem;z-index:1}
.skip:focus{left:.5rem}
header,main,footer{max-width:68rem;margin:0 auto;padding:0 1.25rem}
header{padding-top:clamp(1.5rem,4vw,3rem)}
.brand{display:flex;flex-wrap:wrap;align-items:center;justify-content:space-between;gap:1rem;margin-bottom:clamp(1.5rem,4vw,2.75rem)}
.logo{height:auto}
${DARK_MODE}{.logo{background:${BACKGROUNDS.light.sheet};border-radius:8px;padding:.5rem .75rem;box-sizing:content-box}}
.home{font-weight:600;padding:.3rem 0;overflow-wrap:anywhere}
.kicker{margin:0 0 .5rem;color:var(--accent);font-size:.8125rem;font-weight:650;letter-spacing:.09em;text-transform:uppercase}
h1{margin:0;font:600 clamp(1.9rem,5vw,3rem)/1.1 ${SERIF};letter-spacing:-.02em;text-wrap:balance}
h2{margin:0 0 1.1rem;font:600 1.5rem/1.2 ${SERIF};letter-spacing:-.01em}
h3{margin:0;font-size:1.0625rem;line-height:1.35}
.label{font-size:.875rem;line-height:1.5;font-weight:600;color:var(--soft)}
section{margin-top:clamp(2.25rem,5vw,3.5rem)}
.lead{margin:.5rem 0 0;color:var(--soft);font-size:1.0625rem}
.small{font-size:.875rem;color:var(--soft)}
.certified{display:grid;gap:1rem;grid-template-columns:minmax(0,1fr)}
.sheet{background:var(--sheet);border:1px solid var(--line);border-radius:14px;box-shadow:var(--shadow);padding:clamp(1.1rem,3vw,1.75rem)}
.notice{border-left:4px solid var(--accent);padding:.85rem 1.1rem;margin:1.5rem 0 0;background:var(--sheet);border-radius:0 10px 10px 0;font-size:.9375rem}
dl{margin:0}
dt{font-weight:650;margin-top:1rem}
dt:first-child{margin-top:0}
dd{margin:.15rem 0 0;color:var(--soft);max-width:48rem}
footer{margin-top:3.5rem;padding-bottom:3rem;color:var(--soft);font-size:.875rem}
footer:before{content:"";display:block;border-top:1px solid var(--line);margin-bottom:1.25rem}
footer p{margin:.2rem 0}
.printed{display:none}
`;

/** Paper has no links to click, so it shows the URL of the page, and a sheet of it should not cut a project in two. */
const PRINT = `
@page{margin:12mm}
@media print{html{font-size:12px}body{background:#fff}.brand{margin-bottom:1rem}footer{margin-top:1.5rem;padding-bottom:0}.sheet{box-shadow:none;background:#fff}.skip,.share,.links,summary{display:none}.printed{display:block;overflow-wrap:anywhere}section{margin-top:1.25rem}h2{break-after:avoid}.sheet,.project,.photos li,.chart,figure,dt{break-inside:avoid}.award{border:2px solid var(--brand);border-top-width:8px}.place .map{width:60%;margin:0 auto}header{padding-top:0}.chart,.whole,.part,.bar,.dot,.badge,.timeline li:before,.award{print-color-adjust:exact;-webkit-print-color-adjust:exact}details::details-content{content-visibility:visible;block-size:auto}a{color:inherit}}
`;

/** Browsers replace colors of backgrounds by one of the user's, except system colors, so that bars would be invisible. */
const FORCED_COLORS = `
@media (forced-colors:active){.bar,.bottles .bar,.badge,.timeline .reached:before{background:CanvasText}.badge{color:Canvas}.logo{forced-color-adjust:none}.track{border:1px solid CanvasText}.track .whole{fill:Canvas}.track .part,.track .simulated,.track .waiting{fill:CanvasText}}
`;

const CHART = `
.chart{margin:0}
.chart+.chart{margin-top:2.25rem}
.chart figcaption{margin-bottom:.75rem;color:var(--soft);font-size:.9375rem}
.chart figcaption strong{color:var(--ink);margin-right:.4rem}
.bars{list-style:none;margin:0;padding:0;font-variant-numeric:tabular-nums}
.bars li{display:grid;grid-template-columns:4.6rem 1fr;align-items:center;padding:.16rem 0}
.month{color:var(--soft);font-size:.8125rem}
.column{display:flex;flex-direction:row-reverse;justify-content:flex-end;align-items:center;gap:.45rem;border-left:1px solid var(--line)}
.value{font-size:.8125rem}
.bar{height:1rem;width:calc((100% - 4.5rem)*var(--h)/100);border-radius:0 3px 3px 0;background:var(--brand)}
.bottles .bar{background:var(--brand-soft);box-shadow:inset 0 0 0 2px var(--brand)}
@media print,(min-width:46rem){
.bars{--height:12rem;display:grid;grid-template-columns:repeat(12,minmax(0,1fr))}
.bars li{grid-template-columns:1fr;grid-template-rows:var(--height) auto;padding:0;text-align:center}
.column{grid-row:1;height:var(--height);flex-direction:column;justify-content:flex-end;gap:.1rem;border:0;border-bottom:1px solid var(--line)}
.month{grid-row:2;align-self:start;padding-top:.35rem}
.year{display:block;font-weight:650;min-height:1.3em}
.bar{width:62%;height:calc((100% - 1.35rem)*var(--h)/100);border-radius:3px 3px 0 0}
}
`;

const CERTIFICATE = `
.award{display:grid;gap:1.75rem;grid-template-columns:minmax(0,1fr);border-top:6px solid var(--brand)}
.award .headline .number{font-size:min(clamp(3.2rem,13cqi,6.5rem),calc(90cqi/(var(--letters)*.62)))}
.issue{margin:1.5rem 0 0;color:var(--soft);font-variant-numeric:tabular-nums}
.issue b{color:var(--ink);letter-spacing:.04em}
.photo{margin:0;align-self:center}
.photo img{width:100%;height:auto;aspect-ratio:4/3;object-fit:cover;border-radius:10px;background:var(--brand-soft)}
.photo figcaption{margin-top:.5rem;font-size:.875rem;color:var(--soft)}
.timeline{list-style:none;margin:0 0 1.5rem;padding:0;display:grid;gap:0;font-size:.9375rem}
.timeline li{position:relative;padding:0 0 1rem 1.75rem;color:var(--soft)}
.timeline b{color:var(--ink)}
.timeline li:before{content:"";position:absolute;left:0;top:.3rem;width:.85rem;height:.85rem;border-radius:50%;background:var(--brand);z-index:1}
.timeline .pending:before{background:var(--sheet);box-shadow:inset 0 0 0 2px var(--line)}
.timeline .pending b{color:var(--soft);font-weight:400}
.timeline li:not(:last-child):after{content:"";position:absolute;left:.36rem;top:.7rem;bottom:-.3rem;width:2px;background:var(--line)}
@media print,(min-width:46rem){
.award:has(.photo){grid-template-columns:minmax(0,5fr) minmax(0,4fr)}
.timeline{grid-auto-flow:column;grid-auto-columns:minmax(0,1fr)}
.timeline li{padding:1.5rem .75rem 0 0}
.timeline b{display:block}
.timeline li:not(:last-child):after{left:.85rem;right:0;top:.66rem;bottom:auto;width:auto;height:2px}
.certified dl{display:grid;grid-template-columns:10rem minmax(0,1fr);gap:.5rem 1.5rem}
.certified dt,.certified dd{margin:0}
}
`;

/** One column on a phone, a grid on a desktop. */
export const PAGE_STYLE = `${COLORS}${BASE}${LETTERS}${HEIGHTS}${DOCUMENT}
.hero{margin-top:1.5rem;container-type:inline-size}
.headline{margin:0;font-family:inherit;letter-spacing:0}
.headline .number{color:var(--brand);font-size:min(clamp(3.6rem,17cqi,8.5rem),calc(100cqi/(var(--letters)*.62)));font-weight:600}
.headline .what{font-size:clamp(1.25rem,3.4vw,1.75rem);font-weight:600}
.verified{margin-top:1.5rem;max-width:44rem}
.verified p{margin:.5rem 0 0}
.track{width:100%;height:12px;border-radius:6px}
.track .whole{fill:var(--brand-soft)}.track .part{fill:var(--brand)}.track .simulated{fill:var(--brand);fill-opacity:.55}.track .waiting{fill:var(--brand);fill-opacity:.3}
.tiles{display:grid;gap:1rem;grid-template-columns:1fr;margin-top:2rem}
.tile{container-type:inline-size}
.tile .number{margin:.35rem 0 .3rem;font-size:min(2.6rem,calc(100cqi/(var(--letters)*.62)));font-weight:600}
.tile p{margin:0;color:var(--soft);font-size:.9375rem}
.story p{max-width:44rem;margin:0 0 1rem;font-size:1.0625rem}
${CHART}${CERTIFICATE}
details{margin-top:1.25rem}
summary{cursor:pointer;color:var(--brand);font-weight:600;width:fit-content;padding:.2rem 0}
.map{width:100%;height:auto}
.hit{fill:transparent}
.dot{fill:var(--accent);stroke:var(--sheet);stroke-width:2}
.point text{fill:var(--sheet);font-size:14px;font-weight:700;text-anchor:middle}
.point:hover .dot{fill:var(--ink)}
.point:focus-visible .dot{stroke:var(--ink);stroke-width:4}
.projects{list-style:none;margin:1rem 0 0;padding:0;display:grid;gap:1rem;grid-template-columns:minmax(0,1fr)}
.project{position:relative;padding:1.1rem 1.1rem 1rem 3.4rem}
.project:target{border-color:var(--accent);box-shadow:0 0 0 2px var(--accent)}
.project p{margin:.3rem 0 0}
.badge{position:absolute;left:1.1rem;top:1.1rem;width:1.6rem;height:1.6rem;border-radius:50%;background:var(--accent);color:var(--sheet);font-size:.8125rem;font-weight:700;line-height:1.6rem;text-align:center}
.verifications{list-style:none;margin:0;display:grid;gap:.6rem}
.photos{list-style:none;margin:0;padding:0;display:grid;gap:1.75rem 1.25rem;grid-template-columns:minmax(0,1fr)}
.photos figure{margin:0}
.photos li:target img{outline:3px solid var(--accent)}
.photos figure>a{display:block;border-radius:12px;overflow:hidden;background:var(--brand-soft)}
.photos img{width:100%;height:auto;aspect-ratio:4/3;object-fit:cover}
.photos figcaption{margin-top:.55rem;font-size:.9375rem;line-height:1.45}
.share{display:flex;flex-wrap:wrap;gap:.3rem 1.1rem;margin-bottom:1rem;line-height:1.8}
@media (min-width:46rem) and (max-width:60rem){.value{font-size:.6875rem}}
@media print,(min-width:46rem){.tiles,.projects{grid-template-columns:repeat(3,minmax(0,1fr))}.photos{grid-template-columns:repeat(2,minmax(0,1fr))}}
@media (max-width:32rem){.point .dot,.point text{transform-box:fill-box;transform-origin:center;transform:scale(1.7)}.hit{r:42px}}
${FORCED_COLORS}${PRINT}`;

export const CARD_STYLE = `${COLORS}${BASE}${LETTERS}
body{background:var(--sheet)}
main{display:grid;align-content:space-between;min-height:100vh;padding:.85rem 1.1rem;gap:.5rem}
h1{margin:0;font-size:.9375rem;font-weight:650;display:-webkit-box;-webkit-line-clamp:2;-webkit-box-orient:vertical;overflow:hidden}
.number{color:var(--ink);font-size:min(2.15rem,calc((100vw - 2.2rem)/(var(--letters)*.62)));font-weight:600}
p{margin:0;color:var(--soft);font-size:.8125rem;line-height:1.4}
p b{color:var(--brand)}
`;
