import { hash } from "node:crypto";
import type { PictureFormat, PictureHeader } from "./pictureHeader.rules.ts";
import { readPictureHeader } from "./pictureHeader.rules.ts";
import type { NewLogo } from "../accounts/profile.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { decodeWebp } from "./pictures/decodeWebp.ts";
import { encodePng } from "./pictures/encodePng.ts";
import type { RasterPicture } from "./pictures/rasterize.ts";
import { rasterize } from "./pictures/rasterize.ts";

export const MAXIMUM_LOGO_BYTES = 2 * 1024 * 1024;
/** Decoded, a picture takes four bytes a pixel. */
const MAXIMUM_PIXELS = 4_000_000;
const LEAST_SIDE = 32;

/** Twice the space that pages give a logo, for sharp screens. */
const BOX = { width: 480, height: 240 };

const reject = (problem: string, cause?: unknown): never => {
  throw invalidRequest(`logo: ${problem}`, { cause });
};

/** Returns the header of a picture that is cheap enough to be decoded. */
const requireAcceptable = (file: Uint8Array): PictureHeader => {
  if (file.length > MAXIMUM_LOGO_BYTES) {
    reject(`must be at most ${MAXIMUM_LOGO_BYTES / 1024 / 1024} MiB`);
  }
  const header =
    readPictureHeader(file) ??
    reject("must be a PNG, JPEG or WebP picture; SVG is not accepted because it can contain code");
  const { width, height } = header;
  if (width * height > MAXIMUM_PIXELS) {
    reject(`has ${width} x ${height} pixels; at most ${MAXIMUM_PIXELS} pixels are accepted`);
  }
  if (Math.min(width, height) < LEAST_SIDE) {
    reject(`has ${width} x ${height} pixels; each side must have at least ${LEAST_SIDE}`);
  }
  return header;
};

const drawAt = (
  picture: { readonly type: PictureFormat; readonly file: Uint8Array },
  width: number,
  height: number,
): Promise<RasterPicture> =>
  rasterize(
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}">` +
      `<image width="${width}" height="${height}" preserveAspectRatio="none" href="data:image/${picture.type};base64,${Buffer.from(picture.file).toString("base64")}"/></svg>`,
  );

/** Draws a picture so that it fits the box, in steps of a half at most: one step would skip pixels. */
const shrink = async (file: Uint8Array, header: PictureHeader): Promise<RasterPicture> => {
  const { width, height, format } = header;
  const target = Math.min(1, BOX.width / width, BOX.height / height);
  let scale = Math.max(target, 0.5);
  let drawn = await drawAt(
    { type: format, file },
    Math.round(width * scale),
    Math.round(height * scale),
  );
  while (scale > target) {
    scale = Math.max(target, scale / 2);
    drawn = await drawAt(
      { type: "png", file: drawn.png },
      Math.max(1, Math.round(width * scale)),
      Math.max(1, Math.round(height * scale)),
    );
  }
  return drawn;
};

const asDecodable = async (file: Uint8Array, header: PictureHeader): Promise<Uint8Array> => {
  if (header.format !== "webp") {
    return file;
  }
  const { data, width, height } = await decodeWebp(file);
  return encodePng(new Uint8Array(data.buffer), width, height);
};

/**
 * Draws a logo anew as a PNG of limited size. So nothing of the file but its pixels is stored: no metadata, and nothing
 * that a browser could take for a script.
 * @throws DomainError request_invalid
 */
export const normalizeLogo = async (file: Uint8Array): Promise<NewLogo> => {
  const header = requireAcceptable(file);
  let drawn: RasterPicture;
  try {
    const decodable = await asDecodable(file, header);
    drawn = await shrink(decodable, {
      ...header,
      format: header.format === "webp" ? "png" : header.format,
    });
  } catch (error) {
    return reject("is damaged or animated; save it again as a PNG", error);
  }
  const { png, width, height, isBlank } = drawn;
  if (isBlank) {
    return reject("is damaged, or fully transparent");
  }
  return { hash: hash("sha256", png, "hex"), png: Buffer.from(png), width, height };
};
