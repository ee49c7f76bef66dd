import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { geoEqualEarth, geoPath } from "d3-geo";
import { feature } from "topojson-client";
import type { PlantedSite } from "../../../../db/planting/tallies.ts";
import type { Markup } from "./html.ts";
import { html } from "./html.ts";

const WIDTH = 960;
/** Cuts off Antarctica. */
const HEIGHT = 420;

const projection = geoEqualEarth().fitWidth(WIDTH, { type: "Sphere" });

const readLand = (): string => {
  const file = fileURLToPath(import.meta.resolve("world-atlas/land-110m.json"));
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the format of a pinned version of the package.
  const world = JSON.parse(readFileSync(file, "utf8")) as Parameters<typeof feature>[0];
  const { land } = world.objects;
  if (land === undefined) {
    throw new TypeError("world-atlas has no land.");
  }
  return geoPath(projection).digits(1)(feature(world, land)) ?? "";
};

/** The continents as one picture for all pages. The outlines are Natural Earth's, in the public domain. */
export const WORLD_SVG = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}"><path fill="#7d9688" fill-opacity=".38" d="${readLand()}"/></svg>`;

const SMALLEST_RADIUS = 7;
const LARGEST_RADIUS = 20;

/** Makes the area of a dot proportional to its trees. */
const radiusOf = (trees: number, mostTrees: number): number =>
  Math.round(
    (SMALLEST_RADIUS + (LARGEST_RADIUS - SMALLEST_RADIUS) * Math.sqrt(trees / mostTrees)) * 10,
  ) / 10;

/** Renders a map of sites; the page lists them in words too. */
export const renderMap = (sites: readonly PlantedSite[], worldUrl: string): Markup => {
  const most = Math.max(1, ...sites.map(({ planted }) => planted));
  const dots = sites.flatMap((site) => {
    const point = projection([site.longitude, site.latitude]);
    return point === null
      ? []
      : [
          html`<circle
            class="site"
            cx="${point[0].toFixed(1)}"
            cy="${point[1].toFixed(1)}"
            r="${radiusOf(site.planted, most)}"
            ><title>${site.name}, ${site.country}</title></circle
          >`,
        ];
  });
  return html`<svg
    class="map"
    viewBox="0 0 ${WIDTH} ${HEIGHT}"
    role="img"
    aria-label="World map of ${sites.length} planting ${sites.length === 1 ? "site" : "sites"}"
  >
    <image href="${worldUrl}" width="${WIDTH}" height="${HEIGHT}" />
    ${dots}
  </svg>`;
};
