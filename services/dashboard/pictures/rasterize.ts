import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { initWasm, Resvg } from "@resvg/resvg-wasm";

/** The only font of our pictures. It has Latin, Greek and Cyrillic letters. */
export const PICTURE_FONT = "Source Serif 4";
const FONT_FILES = ["latin", "latin-ext", "cyrillic", "greek", "vietnamese"].map(
  (subset) => `@fontsource/source-serif-4/files/source-serif-4-${subset}-600-normal.woff2`,
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
