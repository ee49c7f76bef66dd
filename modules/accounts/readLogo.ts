import { hash } from "node:crypto";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { readPictureHeader } from "./pictureHeader.rules.ts";
import type { ProfileChanges } from "./profile.rules.ts";

export const MAXIMUM_LOGO_BYTES = 512 * 1024;
/** A browser needs four bytes for each. */
const MAXIMUM_PIXELS = 4_000_000;
const LEAST_SIDE = 32;

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
