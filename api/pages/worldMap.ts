import { readFileSync } from "node:fs";
import { geoEqualEarth } from "d3-geo";
import { counted } from "../../runtime/counted.rules.ts";
import type { Markup } from "./html.ts";
import { html } from "./html.ts";

const WIDTH = 960;
/** Cuts off Antarctica. */
const HEIGHT = 420;

const projection = geoEqualEarth().fitWidth(WIDTH, { type: "Sphere" });

/** The continents in this projection: Natural Earth's outlines (1:110m), in the public domain. */
export const WORLD = readFileSync(new URL("world.svg", import.meta.url));

/** Large enough for the number of the project. */
const SMALLEST_RADIUS = 10;
const LARGEST_RADIUS = 22;

/** Makes the area of a dot proportional to its trees. */
const radiusOf = (trees: number, mostTrees: number): number =>
  Math.round(
    (SMALLEST_RADIUS + (LARGEST_RADIUS - SMALLEST_RADIUS) * Math.sqrt(trees / mostTrees)) * 10,
  ) / 10;

/** A point of the map, which may link to what the page says about it. */
export type MapPoint = {
  readonly latitude: number;
  readonly longitude: number;
  readonly trees: number;
  readonly href: string;
  readonly label: string;
};

/** Renders a map of points, which are numbered in their order; the page lists them in words too. */
export const renderMap = (points: readonly MapPoint[], root: string): Markup => {
  const most = Math.max(1, ...points.map(({ trees }) => trees));
  const dots = points.map(({ latitude, longitude, trees, href, label }, index) => {
    const [left, top] = projection([longitude, latitude]) ?? [0, 0];
    const [x, y] = [left.toFixed(1), top.toFixed(1)];
    return html`<a class="point" href="${href}" aria-label="${index + 1}: ${label}">
      <circle class="hit" cx="${x}" cy="${y}" r="26" />
      <circle class="dot" cx="${x}" cy="${y}" r="${radiusOf(trees, most)}" />
      <text x="${x}" y="${(top + 5).toFixed(1)}">${index + 1}</text></a
    >`;
  });
  return html`<svg
    class="map"
    viewBox="0 0 ${WIDTH} ${HEIGHT}"
    role="group"
    aria-label="World map with ${counted(points.length, "planting project")}"
  >
    <image href="${root}/dashboard/world.svg" width="${WIDTH}" height="${HEIGHT}" />
    ${dots}
  </svg>`;
};
