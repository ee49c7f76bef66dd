/*
 * An organization's color on its public pages. It is text, bars and dots on the page's backgrounds, so it must be legible
 * there in light and in dark mode.
 */

/** The backgrounds of the public pages. */
export const BACKGROUNDS = {
  light: { paper: "#f6f4ee", sheet: "#fffefb" },
  dark: { paper: "#0e1512", sheet: "#151e1a" },
} as const;

export type Appearance = keyof typeof BACKGROUNDS;

/** What WCAG 2.2 requires of text (level AA). */
export const LEAST_CONTRAST = 4.5;

/** A color, `#rrggbb`. */
type Color = string;
type Channels = readonly [red: number, green: number, blue: number];

const COLOR = /^#(?:[0-9a-f]{3}|[0-9a-f]{6})$/u;

/** Returns the color as `#rrggbb`; null for any other text than `#rgb` and `#rrggbb`. */
export const parseColor = (given: string): Color | null => {
  const color = given.toLowerCase();
  if (!COLOR.test(color)) {
    return null;
  }
  return color.length === 4 ? color.replaceAll(/[0-9a-f]/gu, "$&$&") : color;
};

const channelsOf = (color: Color): Channels => [
  Number.parseInt(color.slice(1, 3), 16),
  Number.parseInt(color.slice(3, 5), 16),
  Number.parseInt(color.slice(5, 7), 16),
];

const linear = (channel: number): number => {
  const value = channel / 255;
  return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
};

/** The relative luminance of WCAG. */
const luminanceOf = (color: Color): number => {
  const [red, green, blue] = channelsOf(color);
  return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
};

/** Returns the contrast ratio of two colors, from 1 to 21. */
export const contrastOf = (first: Color, second: Color): number => {
  const [one, other] = [luminanceOf(first), luminanceOf(second)];
  return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
};

/** Returns the color of which a share is the first color, and the rest the second. */
export const mixColors = (first: Color, second: Color, share: number): Color => {
  const other = channelsOf(second);
  return `#${channelsOf(first)
    .map((channel, index) => Math.round(channel * share + (other[index] ?? 0) * (1 - share)))
    .map((channel) => channel.toString(16).padStart(2, "0"))
    .join("")}`;
};

/** Returns the lowest contrast to the backgrounds. */
const leastContrast = (color: Color, appearance: Appearance): number =>
  Math.min(
    ...Object.values(BACKGROUNDS[appearance]).map((background) => contrastOf(color, background)),
  );

const STEPS = 50;
const EXTREMES = { light: "#000000", dark: "#ffffff" } as const satisfies Record<Appearance, Color>;

const legibleShade = (color: Color, appearance: Appearance): Color => {
  for (let step = STEPS; step > 0; step -= 1) {
    const shade = mixColors(color, EXTREMES[appearance], step / STEPS);
    if (leastContrast(shade, appearance) >= LEAST_CONTRAST) {
      return shade;
    }
  }
  return EXTREMES[appearance];
};

export type BrandColors = Readonly<Record<Appearance, Color>>;

/** Returns the color for each mode: darkened or lightened as little as makes it legible on every background. */
export const brandColorsOf = (color: Color): BrandColors => ({
  light: legibleShade(color, "light"),
  dark: legibleShade(color, "dark"),
});
