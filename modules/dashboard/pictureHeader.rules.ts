/*
 * The format and size that a picture file states, read before anything decodes it: a small file can state a picture of
 * gigabytes.
 */

export type PictureFormat = "png" | "jpeg" | "webp";

export type PictureHeader = {
  readonly format: PictureFormat;
  readonly width: number;
  readonly height: number;
};

type Size = Pick<PictureHeader, "width" | "height">;

const latin1 = (bytes: Uint8Array, from: number, until: number): string =>
  String.fromCodePoint(...bytes.subarray(from, until));

const viewOf = (bytes: Uint8Array): DataView =>
  new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

const PNG_SIGNATURE = "\u0089PNG\r\n\u001A\n";

const readPng = (bytes: Uint8Array): Size | null =>
  bytes.length >= 24 && latin1(bytes, 12, 16) === "IHDR"
    ? { width: viewOf(bytes).getUint32(16), height: viewOf(bytes).getUint32(20) }
    : null;

/** Whether a JPEG marker starts a frame, whose header has the size. */
const isFrame = (marker: number): boolean =>
  marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker);

const readJpeg = (bytes: Uint8Array): Size | null => {
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

const readWebp = (bytes: Uint8Array): Size | null => {
  if (bytes.length < 30) {
    return null;
  }
  const view = viewOf(bytes);
  const uint24 = (at: number): number =>
    view.getUint16(at, true) + (bytes[at + 2] ?? 0) * 0x1_00_00;
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

const FORMATS: readonly {
  readonly format: PictureFormat;
  readonly matches: (bytes: Uint8Array) => boolean;
  readonly readSize: (bytes: Uint8Array) => Size | null;
}[] = [
  { format: "png", matches: (bytes) => latin1(bytes, 0, 8) === PNG_SIGNATURE, readSize: readPng },
  {
    format: "jpeg",
    matches: (bytes) => bytes[0] === 0xff && bytes[1] === 0xd8 && bytes[2] === 0xff,
    readSize: readJpeg,
  },
  {
    format: "webp",
    matches: (bytes) => latin1(bytes, 0, 4) === "RIFF" && latin1(bytes, 8, 12) === "WEBP",
    readSize: readWebp,
  },
];

/** Returns what the file states, by its first bytes and never by its name; null if it is no such picture. */
export const readPictureHeader = (bytes: Uint8Array): PictureHeader | null => {
  const found = FORMATS.find(({ matches }) => matches(bytes));
  const size = found?.readSize(bytes) ?? null;
  return found && size && size.width > 0 && size.height > 0
    ? { format: found.format, ...size }
    : null;
};
