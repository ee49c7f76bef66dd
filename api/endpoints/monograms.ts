import { hash } from "node:crypto";
import { nameWords } from "../../modules/charities/charities.rules.ts";

const LETTERS = 2;
const HUES = 360;
/** A letter in upper case may be two, such as that of `ß`. */
const MONOGRAM = /^([\p{L}\p{N}]{1,4})-(\d{1,3})$/u;

/** Returns the initials and the color of a name, such as `AR-153`. From them alone a monogram is drawn. */
const monogramOf = (name: string): string => {
  const { words, phrase } = nameWords(name);
  const significant = words.filter((word) => word !== "the");
  const initials = (significant.length > 0 ? significant : words)
    .slice(0, LETTERS)
    .map((word) => Array.from(word)[0]?.toUpperCase())
    .join("");
  // A name without letters is a charity's.
  return `${initials || "C"}-${Number.parseInt(hash("sha256", phrase).slice(0, 8), 16) % HUES}`;
};

/** The path of the icon of a charity that has none. */
export const MONOGRAM_PATH = "/media/monograms/:monogram.svg";

export const monogramUrl = (publicBaseUrl: string, name: string): string =>
  `${publicBaseUrl}${MONOGRAM_PATH.replace(":monogram", encodeURIComponent(monogramOf(name)))}`;

/** Draws a monogram as SVG; returns null if it is none. */
export const drawMonogram = (monogram: string): string | null => {
  const [, letters, hue] = MONOGRAM.exec(monogram) ?? [];
  return letters === undefined
    ? null
    : `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64"><rect width="64" height="64" rx="12" fill="hsl(${hue},45%,30%)"/><text x="32" y="42" text-anchor="middle" font-family="system-ui,sans-serif" font-size="28" font-weight="600" fill="#fff">${letters}</text></svg>`;
};
