/*
 * An organization's color on its public pages. It is text, bars and dots on the page's backgrounds, so it must be legible
 * there in light and in dark mode.
 */

export const BACKGROUNDS = {
  light: { paper: "#f6f4ee", sheet: "#fffefb" },
  dark: { paper: "#0e1512", sheet: "#151e1a" },
} as const;

export type Appearance = keyof typeof BACKGROUNDS;

/** What WCAG 2.2 requires of text (level AA). */
export const LEAST_CONTRAST = 4.5;

/** A color, `#rrggbb`. */
type Color = string;

const COLOR = /^#(?:[0-9a-f]{3}|[0-9a-f]{6})$/u;

/** Returns the color as `#rrggbb`; null for any other text than `#rgb` and `#rrggbb`. */
export const parseColor = (given: string): Color | null => {
  const color = given.toLowerCase();
  return COLOR.test(color) ? color.replace(/^#(.)(.)(.)$/u, "#$1$1$2$2$3$3") : null;
};

const channelsOf = (color: Color): readonly number[] => [...Buffer.from(color.slice(1), "hex")];

const linear = (channel: number): number => {
  const value = channel / 255;
  return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
};

const luminanceOf = (color: Color): number => {
  const [red = 0, green = 0, blue = 0] = channelsOf(color).map(linear);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
};

/** Returns the contrast ratio of two colors, from 1 to 21. */
export const contrastOf = (first: Color, second: Color): number => {
  const [one, other] = [luminanceOf(first), luminanceOf(second)];
  return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
};

/** Returns the color of which a share is the first color, and the rest the second. */
export const mixColors = (first: Color, second: Color, share: number): Color => {
  const other = channelsOf(second);
  const mixed = channelsOf(first).map((channel, index) =>
    Math.round(channel * share + (other[index] ?? 0) * (1 - share)),
  );
  return `#${Buffer.from(mixed).toString("hex")}`;
};

const STEPS = 50;
const EXTREMES = { light: "#000000", dark: "#ffffff" } as const satisfies Record<Appearance, Color>;

const legibleShade = (color: Color, appearance: Appearance): Color => {
  const extreme = EXTREMES[appearance];
  const backgrounds = Object.values(BACKGROUNDS[appearance]);
  const shades = Array.from({ length: STEPS })
    .keys()
    .map((step) => mixColors(color, extreme, 1 - step / STEPS));
  const isLegible = (shade: Color): boolean =>
    backgrounds.every((background) => contrastOf(shade, background) >= LEAST_CONTRAST);
  return shades.find(isLegible) ?? extreme;
};

export type BrandColors = Readonly<Record<Appearance, Color>>;

/** Returns the color for each mode: darkened or lightened as little as makes it legible on every background. */
export const brandColorsOf = (color: Color): BrandColors => ({
  light: legibleShade(color, "light"),
  dark: legibleShade(color, "dark"),
});
