import { hash } from "node:crypto";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { PICTURE_TYPES } from "./profile.rules.ts";
import type { Logo, PictureType, ProfileChanges } from "./profile.rules.ts";

export const MAXIMUM_LOGO_BYTES = 512 * 1024;
/** A browser needs four bytes for each. */
const MAXIMUM_PIXELS = 4_000_000;
const LEAST_SIDE = 32;

type Size = Pick<Logo, "width" | "height">;

const textIn = (file: Buffer, from: number, until?: number): string =>
  file.toString("latin1", from, until);

/** Whether a JPEG marker starts a frame, whose header has the size. */
const isFrame = (marker: number): boolean =>
  marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker);

const readJpegSize = (file: Buffer): Size | null => {
  let at = 2;
  while (at + 9 <= file.length && file[at] === 0xff) {
    const marker = file[at + 1] ?? 0;
    if (isFrame(marker)) {
      return { height: file.readUInt16BE(at + 5), width: file.readUInt16BE(at + 7) };
    }
    // A marker may be preceded by any number of fill bytes.
    at += marker === 0xff ? 1 : 2 + file.readUInt16BE(at + 2);
  }
  return null;
};

const readWebpSize = (file: Buffer): Size | null => {
  switch (textIn(file, 12, 16)) {
    case "VP8 ":
      return { width: file.readUInt16LE(26) % 0x40_00, height: file.readUInt16LE(28) % 0x40_00 };
    case "VP8L": {
      const bits = file.readUInt32LE(21);
      return { width: (bits % 0x40_00) + 1, height: (Math.floor(bits / 0x40_00) % 0x40_00) + 1 };
    }
    case "VP8X":
      return { width: file.readUIntLE(24, 3) + 1, height: file.readUIntLE(27, 3) + 1 };
    default:
      return null;
  }
};

/** How a file of a type begins, where it states its size, and whether it ends where the picture does. */
type Format = {
  readonly matches: (file: Buffer) => boolean;
  readonly readSize: (file: Buffer) => Size | null;
  readonly isComplete: (file: Buffer) => boolean;
};

const FORMATS: Readonly<Record<PictureType, Format>> = {
  png: {
    matches: (file) => textIn(file, 0, 16) === "\u0089PNG\r\n\u001A\n\0\0\0\rIHDR",
    readSize: (file) => ({ width: file.readUInt32BE(16), height: file.readUInt32BE(20) }),
    isComplete: (file) => textIn(file, file.length - 12) === "\0\0\0\0IEND\u00AEB`\u0082",
  },
  jpeg: {
    matches: (file) => textIn(file, 0, 3) === "\u00FF\u00D8\u00FF",
    readSize: readJpegSize,
    isComplete: (file) => textIn(file, file.length - 2) === "\u00FF\u00D9",
  },
  webp: {
    matches: (file) => textIn(file, 0, 4) === "RIFF" && textIn(file, 8, 12) === "WEBP",
    readSize: readWebpSize,
    isComplete: (file) => file.readUInt32LE(4) + 8 === file.length,
  },
};

/** Longer than the headers of PNG and WebP. */
const LEAST_BYTES = 32;

/**
 * Returns the type and size that a picture states, by its content and never by its name; null if it is no such picture. A
 * small file can state a picture of gigabytes.
 */
const readPictureHeader = (
  file: Buffer,
): (Omit<Logo, "hash"> & { readonly isComplete: boolean }) | null => {
  const type = PICTURE_TYPES.find((candidate) => FORMATS[candidate].matches(file));
  if (type === undefined || file.length < LEAST_BYTES) {
    return null;
  }
  const size = FORMATS[type].readSize(file);
  return size && { type, ...size, isComplete: FORMATS[type].isComplete(file) };
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
