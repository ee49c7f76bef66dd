import { setImmediate as nextTurn } from "node:timers/promises";

/** How much of a list is written at a time; its client must accept that within the write timeout. */
const CHUNK_BYTES = 64 * 1024;

/**
 * Joins the pieces of a response to chunks of at most 64 KiB. Other requests of the process have their turn after each
 * 64 KiB.
 */
export async function* inChunks(
  pieces: AsyncIterable<Buffer | string>,
): AsyncGenerator<Buffer, void, void> {
  let waiting: Buffer[] = [];
  let bytes = 0;
  for await (const piece of pieces) {
    const buffer = Buffer.isBuffer(piece) ? piece : Buffer.from(piece);
    waiting.push(buffer);
    bytes += buffer.length;
    if (bytes >= CHUNK_BYTES) {
      const joined = Buffer.concat(waiting);
      for (let start = 0; start < joined.length; start += CHUNK_BYTES) {
        yield joined.subarray(start, start + CHUNK_BYTES);
      }
      waiting = [];
      bytes = 0;
      await nextTurn();
    }
  }
  if (bytes > 0) {
    yield Buffer.concat(waiting);
  }
}
