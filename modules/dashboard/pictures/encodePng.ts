import { crc32, deflateSync } from "node:zlib";

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
