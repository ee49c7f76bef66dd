import { hash } from "node:crypto";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import type { ProfileChanges } from "./profile.rules.ts";

export const MAXIMUM_LOGO_BYTES = 512 * 1024;
/** A browser needs four bytes for each. */
const MAXIMUM_PIXELS = 4_000_000;
const LEAST_SIDE = 32;

const BEGINNING = Buffer.from("\u0089PNG\r\n\u001A\n\0\0\0\rIHDR", "latin1");
const END = Buffer.from("\0\0\0\0IEND\u00AEB`\u0082", "latin1");
/** The longest that has no picture: the beginning, the rest of the header, and the end. */
const LEAST_BYTES = 45;

const reject = (problem: string): never => {
  throw invalidRequest(`logo: ${problem}`);
};

/**
 * Reads a logo that pages will serve as it is. It is recognized by its content, not by its name, and not decoded: a small file
 * can state a picture of gigabytes.
 * @throws DomainError request_invalid
 */
export const readLogo = (file: Buffer): NonNullable<ProfileChanges["logo"]> => {
  if (file.length > MAXIMUM_LOGO_BYTES) {
    reject(`must be at most ${MAXIMUM_LOGO_BYTES / 1024} KiB`);
  }
  if (file.length < LEAST_BYTES || !file.subarray(0, BEGINNING.length).equals(BEGINNING)) {
    reject("must be a PNG picture; SVG is not accepted because it can contain code");
  }
  const [width, height] = [file.readUInt32BE(16), file.readUInt32BE(20)];
  if (width * height > MAXIMUM_PIXELS) {
    reject(`has ${width} x ${height} pixels; at most ${MAXIMUM_PIXELS} pixels are accepted`);
  }
  if (Math.min(width, height) < LEAST_SIDE) {
    reject(`has ${width} x ${height} pixels; each side must have at least ${LEAST_SIDE}`);
  }
  if (!file.subarray(-END.length).equals(END)) {
    reject("is damaged, or has other data after the picture; save it again");
  }
  return { width, height, hash: hash("sha256", file, "hex"), file };
};
