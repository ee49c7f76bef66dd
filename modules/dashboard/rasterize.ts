import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { initWasm, Resvg } from "@resvg/resvg-wasm";

/** The only font of our pictures. */
export const PICTURE_FONT = "Source Serif 4";
const FONT_FILES = ["latin", "latin-ext", "cyrillic", "cyrillic-ext", "greek", "vietnamese"].map(
  (subset) => `@fontsource/source-serif-4/files/source-serif-4-${subset}-600-normal.woff2`,
);

/** Texts that the font draws without boxes: it lacks much of the ranges that its package names. */
export const DRAWABLE = new RegExp(
  `^[${[
    String.raw` -~\u00A0-\u012B\u012E-\u0131\u0134-\u0165\u0168-\u017F\u018F\u0192\u01A0\u01A1\u01AF\u01B0\u0218-\u021B`,
    String.raw`\u1E80-\u1E85\u1E9E\u1EA0-\u1EF9`,
    // Greek
    String.raw`\u0384-\u038A\u038C\u038E-\u03A1\u03A3-\u03CE`,
    // Cyrillic
    String.raw`\u0400-\u045F\u0490-\u0493\u0496-\u049B\u04A0-\u04A3\u04AA\u04AB\u04AE-\u04B3\u04B6\u04B7\u04BA\u04BB`,
    String.raw`\u04C0-\u04C2\u04CF-\u04D1\u04D4-\u04D9\u04E2\u04E3\u04E6-\u04E9\u04EE\u04EF\u04F2\u04F3`,
    // Spaces and signs
    String.raw`\u2000-\u200F\u2013\u2014\u2018-\u201A\u201C-\u201E\u2020\u2022\u2026\u202F\u2032\u2033\u2039\u203A`,
    String.raw`\u20AC\u2116\u2122`,
  ].join("")}]*$`,
  "u",
);

const readPackageFile = (specifier: string): Promise<Uint8Array> =>
  readFile(fileURLToPath(import.meta.resolve(specifier)));

let loading: Promise<readonly Uint8Array[]> | null = null;

/** Loads the renderer and the font. WebAssembly of a library can be initialized once only. */
const load = async (): Promise<readonly Uint8Array[]> => {
  await initWasm(await readPackageFile("@resvg/resvg-wasm/index_bg.wasm"));
  return Promise.all(FONT_FILES.map(readPackageFile));
};

export type RasterPicture = {
  readonly png: Uint8Array;
  readonly width: number;
  readonly height: number;
  /** Whether every pixel is transparent. */
  readonly isBlank: boolean;
};

/**
 * Draws SVG that we have made; never pass a client's. It blocks the thread for some tenths of a second.
 * @throws Error if the SVG cannot be drawn
 */
export const rasterize = async (svg: string): Promise<RasterPicture> => {
  loading ??= load();
  const drawing = new Resvg(svg, {
    font: {
      loadSystemFonts: false,
      fontBuffers: svg.includes("<text") ? [...(await loading)] : (await loading, []),
      defaultFontFamily: PICTURE_FONT,
    },
  });
  try {
    const image = drawing.render();
    try {
      return {
        png: image.asPng(),
        width: image.width,
        height: image.height,
        isBlank: image.pixels.every((channel) => channel === 0),
      };
    } finally {
      image.free();
    }
  } finally {
    drawing.free();
  }
};
