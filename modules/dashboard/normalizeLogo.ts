import { crc32, deflateSync } from "node:zlib";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import decode, { init } from "@jsquash/webp/decode.js";
import { hash } from "node:crypto";
import { readPictureHeader } from "./pictureHeader.rules.ts";
import type { PictureFormat, PictureHeader } from "./pictureHeader.rules.ts";
import type { NewLogo } from "../accounts/profile.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { rasterize } from "./rasterize.ts";
import type { RasterPicture } from "./rasterize.ts";

const SIGNATURE = Buffer.from("\u0089PNG\r\n\u001A\n", "latin1");
const CHANNELS = 4;

const chunk = (type: string, data: Buffer): Buffer => {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const [length, checksum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  checksum.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, checksum]);
};

/** Encodes pixels of 8 bits each for red, green, blue and opacity. */
export const encodePng = (pixels: Uint8Array, width: number, height: number): Buffer => {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  // Eight bits a channel, with opacity; then the only compression, filtering and interlacing that we use.
  header.set([8, 6, 0, 0, 0], 8);
  const rowBytes = width * CHANNELS;
  // Each row starts with the number of its filter, 0 for none.
  const rows = Buffer.alloc((rowBytes + 1) * height);
  for (let row = 0; row < height; row += 1) {
    rows.set(pixels.subarray(row * rowBytes, (row + 1) * rowBytes), row * (rowBytes + 1) + 1);
  }
  return Buffer.concat([
    SIGNATURE,
    chunk("IHDR", header),
    chunk("IDAT", deflateSync(rows)),
    chunk("IEND", Buffer.alloc(0)),
  ]);
};

/** The class of browsers in which the decoder returns its result. */
class ImageData {
  readonly data: Uint8ClampedArray;
  readonly width: number;
  readonly height: number;

  constructor(data: Uint8ClampedArray, width: number, height: number) {
    this.data = data;
    this.width = width;
    this.height = height;
  }
}

/** @throws Error if the file is damaged or animated */
const decodeWebp = async (file: Uint8Array): Promise<ImageData> => {
  Object.assign(globalThis, { ImageData });
  const path = fileURLToPath(import.meta.resolve("@jsquash/webp/codec/dec/webp_dec.wasm"));
  await init({ wasmBinary: await readFile(path) });
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the library's type is a browser's.
  return (await decode(new Uint8Array(file).buffer)) as ImageData;
};

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
