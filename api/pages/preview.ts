import { BACKGROUNDS } from "../../modules/accounts/brandColor.rules.ts";
import { DRAWABLE, PICTURE_FONT } from "../../modules/dashboard/rasterize.ts";
import type { Dashboard } from "../../modules/dashboard/readDashboard.ts";
import { markVerified, headlineOf } from "./figures.ts";
import { formatHost, formatNumber } from "./format.ts";
import type { Markup } from "./html.ts";
import { html } from "./html.ts";
import { colorsOf } from "./styles.ts";

/** The size that sites expect of the picture of a link. */
export const PREVIEW_WIDTH = 1200;
export const PREVIEW_HEIGHT = 630;

const MARGIN = 80;
const LOGO_BOX = { width: 300, height: 110 };
/** The width of an average letter in font sizes. */
const LETTER = 0.56;
const NAME_CHARACTERS = 44;

const fit = (text: string, largest: number): number =>
  Math.min(largest, Math.floor((PREVIEW_WIDTH - 2 * MARGIN) / (text.length * LETTER)));

/**
 * Returns the name, or what else identifies the page if the font cannot draw it: the host of the home page, or the slug.
 * Shortened to a line.
 */
const shownNameOf = ({ name, profile: { homeUrl }, slug }: Dashboard): string => {
  const candidates = [name.normalize(), ...(homeUrl === null ? [] : [formatHost(homeUrl)])];
  const shown = candidates.find((text) => DRAWABLE.test(text)) ?? slug;
  return shown.length > NAME_CHARACTERS ? `${shown.slice(0, NAME_CHARACTERS - 1).trim()}…` : shown;
};

const renderLogo = (logo: Dashboard["profile"]["logo"], file: Buffer | null): Markup | null => {
  if (logo === null || file === null) {
    return null;
  }
  const scale = Math.min(LOGO_BOX.width / logo.width, LOGO_BOX.height / logo.height);
  const width = Math.round(logo.width * scale);
  return html`<image
    x="${PREVIEW_WIDTH - MARGIN - width}"
    y="60"
    width="${width}"
    height="${Math.round(logo.height * scale)}"
    href="data:image/png;base64,${file.toString("base64")}"
  />`;
};

const explainVerified = (dashboard: Dashboard): string => {
  const { trees } = dashboard;
  if (trees.total === 0 || trees.plantedAndVerified === 0) {
    return "";
  }
  return `${formatNumber(trees.plantedAndVerified)} planted and verified${markVerified(dashboard)}`;
};

/** Draws the picture that other sites show beside a link to the page. */
export const drawPreview = (dashboard: Dashboard, logoFile: Buffer | null): string => {
  const { profile } = dashboard;
  const color = colorsOf(profile.color).light;
  const headline = headlineOf(dashboard);
  const shownName = shownNameOf(dashboard);
  const number = headline?.number ?? "";
  return html`<svg
    xmlns="http://www.w3.org/2000/svg"
    width="${PREVIEW_WIDTH}"
    height="${PREVIEW_HEIGHT}"
    font-family="${PICTURE_FONT}"
    font-weight="600"
  >
    <rect width="${PREVIEW_WIDTH}" height="${PREVIEW_HEIGHT}" fill="${BACKGROUNDS.light.paper}" />
    <rect width="24" height="${PREVIEW_HEIGHT}" fill="${color}" />
    ${renderLogo(profile.logo, logoFile)}
    <text x="${MARGIN}" y="230" font-size="${fit(shownName, 54)}" fill="#18231d">${shownName}</text>
    <text x="${MARGIN}" y="400" font-size="${fit(number, 180)}" fill="${color}">${number}</text>
    <text x="${MARGIN}" y="482" font-size="46" fill="#18231d">
      ${headline?.label ?? "Public impact record"}
    </text>
    <text x="${MARGIN}" y="554" font-size="34" fill="#55635b">${explainVerified(dashboard)}</text>
  </svg>`.markup.trim();
};
