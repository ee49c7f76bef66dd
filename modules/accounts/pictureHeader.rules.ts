import type { PictureHeader, PictureType } from "./profile.rules.ts";

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
export const readPictureHeader = (
  bytes: Uint8Array,
): (PictureHeader & { readonly isComplete: boolean }) | null => {
  const types: readonly PictureType[] = ["png", "jpeg", "webp"];
  const type = types.find((candidate) => FORMATS[candidate].matches(bytes));
  if (type === undefined || bytes.length < LEAST_BYTES) {
    return null;
  }
  const size = FORMATS[type].readSize(bytes);
  return size && { type, ...size, isComplete: FORMATS[type].isComplete(bytes) };
};
