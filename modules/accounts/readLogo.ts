import { hash } from "node:crypto";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { PICTURE_TYPES } from "./profile.rules.ts";
import type { PictureHeader, PictureType, ProfileChanges } from "./profile.rules.ts";

export const MAXIMUM_LOGO_BYTES = 512 * 1024;
/** A browser needs four bytes for each. */
const MAXIMUM_PIXELS = 4_000_000;
const LEAST_SIDE = 32;

type Size = Pick<PictureHeader, "width" | "height">;

const latin1 = (bytes: Uint8Array, from: number, until?: number): string =>
  String.fromCodePoint(...bytes.subarray(from, until));

const viewOf = (bytes: Uint8Array): DataView =>
  new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

/** Whether a JPEG marker starts a frame, whose header has the size. */
const isFrame = (marker: number): boolean =>
  marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker);

const readJpegSize = (bytes: Uint8Array): Size | null => {
  const view = viewOf(bytes);
  let at = 2;
  while (at + 9 <= bytes.length && bytes[at] === 0xff) {
    const marker = bytes[at + 1] ?? 0;
    if (isFrame(marker)) {
      return { height: view.getUint16(at + 5), width: view.getUint16(at + 7) };
    }
    // A marker may be preceded by any number of fill bytes.
    at += marker === 0xff ? 1 : 2 + view.getUint16(at + 2);
  }
  return null;
};

const readWebpSize = (bytes: Uint8Array): Size | null => {
  const view = viewOf(bytes);
  const uint24 = (at: number): number => view.getUint32(at, true) % 0x1_00_00_00;
  switch (latin1(bytes, 12, 16)) {
    case "VP8 ":
      return {
        width: view.getUint16(26, true) % 0x40_00,
        height: view.getUint16(28, true) % 0x40_00,
      };
    case "VP8L": {
      const bits = view.getUint32(21, true);
      return { width: (bits % 0x40_00) + 1, height: (Math.floor(bits / 0x40_00) % 0x40_00) + 1 };
    }
    case "VP8X":
      return { width: uint24(24) + 1, height: uint24(27) + 1 };
    default:
      return null;
  }
};

/** How a file of a type begins, where it states its size, and whether it ends where the picture does. */
type Format = {
  readonly matches: (bytes: Uint8Array) => boolean;
  readonly readSize: (bytes: Uint8Array) => Size | null;
  readonly isComplete: (bytes: Uint8Array) => boolean;
};

const FORMATS: Readonly<Record<PictureType, Format>> = {
  png: {
    matches: (bytes) => latin1(bytes, 0, 16) === "\u0089PNG\r\n\u001A\n\0\0\0\rIHDR",
    readSize: (bytes) => ({
      width: viewOf(bytes).getUint32(16),
      height: viewOf(bytes).getUint32(20),
    }),
    isComplete: (bytes) => latin1(bytes, bytes.length - 12) === "\0\0\0\0IEND\u00AEB`\u0082",
  },
  jpeg: {
    matches: (bytes) => latin1(bytes, 0, 3) === "\u00FF\u00D8\u00FF",
    readSize: readJpegSize,
    isComplete: (bytes) => latin1(bytes, bytes.length - 2) === "\u00FF\u00D9",
  },
  webp: {
    matches: (bytes) => latin1(bytes, 0, 4) === "RIFF" && latin1(bytes, 8, 12) === "WEBP",
    readSize: readWebpSize,
    isComplete: (bytes) => viewOf(bytes).getUint32(4, true) + 8 === bytes.length,
  },
};

/** Longer than the headers of PNG and WebP. */
const LEAST_BYTES = 32;

/**
 * Returns the type and size that a picture states, by its content and never by its name; null if it is no such picture. A
 * small file can state a picture of gigabytes.
 */
const readPictureHeader = (
  bytes: Uint8Array,
): (PictureHeader & { readonly isComplete: boolean }) | null => {
  const type = PICTURE_TYPES.find((candidate) => FORMATS[candidate].matches(bytes));
  if (type === undefined || bytes.length < LEAST_BYTES) {
    return null;
  }
  const size = FORMATS[type].readSize(bytes);
  return size && { type, ...size, isComplete: FORMATS[type].isComplete(bytes) };
};

const reject = (problem: string): never => {
  throw invalidRequest(`logo: ${problem}`);
};

/**
 * Reads a logo that pages will serve as it is. It is not decoded.
 * @throws DomainError request_invalid
 */
export const readLogo = (file: Buffer): NonNullable<ProfileChanges["logo"]> => {
  if (file.length > MAXIMUM_LOGO_BYTES) {
    reject(`must be at most ${MAXIMUM_LOGO_BYTES / 1024} KiB`);
  }
  const { type, width, height, isComplete } =
    readPictureHeader(file) ??
    reject("must be a PNG, JPEG or WebP picture; SVG is not accepted because it can contain code");
  if (width * height > MAXIMUM_PIXELS) {
    reject(`has ${width} x ${height} pixels; at most ${MAXIMUM_PIXELS} pixels are accepted`);
  }
  if (Math.min(width, height) < LEAST_SIDE) {
    reject(`has ${width} x ${height} pixels; each side must have at least ${LEAST_SIDE}`);
  }
  if (!isComplete) {
    reject("is damaged, or has other data after the picture; save it again");
  }
  return { type, width, height, hash: hash("sha256", file, "hex"), file };
};
