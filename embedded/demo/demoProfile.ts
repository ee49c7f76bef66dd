import type { ProfileChanges } from "../../modules/accounts/updateOrganization.ts";
import { normalizeLogo } from "../../modules/dashboard/normalizeLogo.ts";
import { rasterize } from "../../modules/dashboard/pictures/rasterize.ts";

const LOGO = `<svg xmlns="http://www.w3.org/2000/svg" width="480" height="160"><path fill="#0b5d8a" d="M80 20c40 30 40 90 0 120c-40-30-40-90 0-120z"/><path stroke="#fff" stroke-width="6" d="M80 40v92M80 70l18-14M80 92l22-16M80 92l-22-16M80 70l-18-14" fill="none"/><text x="150" y="104" font-family="Source Serif 4" font-weight="600" font-size="68" fill="#0b5d8a">North Sea</text></svg>`;

/** Returns what the public pages of the demo organization say about it. */
export const drawDemoProfile = async (): Promise<ProfileChanges> => ({
  displayName: "North Sea Outfitters",
  color: "#0b5d8a",
  homeUrl: "https://northsea.example/",
  story:
    "We make clothes for bad weather, in two small factories on the coast.\n\nEach jacket plants ten trees and rescues four bottles. This page shows what has been registered, and what has been verified since.",
  logo: await normalizeLogo((await rasterize(LOGO)).png),
});
