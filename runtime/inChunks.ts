import { setImmediate as nextTurn, setTimeout as delay } from "node:timers/promises";

/** How much of a list is written at a time; its client must accept that within the write timeout. */
const CHUNK_BYTES = 64 * 1024;

/** So many bytes are passed on at once, and are not copied to be joined with more. */
const ENOUGH_BYTES = CHUNK_BYTES / 2;

/**
 * How long pieces wait for the next one, so that an early error is no half file. Then they are sent, so that proxies do not
 * mistake a slow list for an idle connection.
 */
const LONGEST_WAIT_MS = 1000;

/**
 * Joins the pieces of a page to larger ones, of at most a chunk each. An asynchronous generator takes longer to pass a piece
 * on than most pieces take to be written.
 */
export function* joinPieces(pieces: Iterable<Buffer | string>): Generator<Buffer, void, void> {
  let waiting: Buffer[] = [];
  let bytes = 0;
  for (const piece of pieces) {
    const buffer = Buffer.isBuffer(piece) ? piece : Buffer.from(piece);
    if (bytes > 0 && bytes + buffer.length > CHUNK_BYTES) {
      yield Buffer.concat(waiting);
      waiting = [];
      bytes = 0;
    }
    waiting.push(buffer);
    bytes += buffer.length;
  }
  if (bytes > 0) {
    yield Buffer.concat(waiting);
  }
}

/**
 * Joins the pieces of a response to chunks of at most 64 KiB. A chunk is smaller if there is enough, if the next piece takes
 * long, or if it is the last one. Other requests of the process have their turn after each large chunk.
 */
export async function* inChunks(
  pieces: AsyncIterable<Buffer | string>,
): AsyncGenerator<Buffer, void, void> {
  const iterator = pieces[Symbol.asyncIterator]();
  let waiting: Buffer[] = [];
  let bytes = 0;
  const take = (): Buffer => {
    const [first, ...others] = waiting;
    const joined = first && others.length === 0 ? first : Buffer.concat(waiting);
    waiting = [];
    bytes = 0;
    return joined;
  };
  try {
    for (;;) {
      const following = iterator.next();
      if (bytes > 0 && (await Promise.race([following, nextTurn()])) === undefined) {
        // The source has to wait for it.
        const timer = new AbortController();
        const timeout = delay(LONGEST_WAIT_MS, undefined, timer).catch(() => undefined);
        const isThere = (await Promise.race([following, timeout])) !== undefined;
        timer.abort();
        if (!isThere) {
          yield take();
        }
      }
      const next = await following;
      if (next.done === true) {
        break;
      }
      const buffer = Buffer.isBuffer(next.value) ? next.value : Buffer.from(next.value);
      if (bytes > 0 && bytes + buffer.length > CHUNK_BYTES) {
        yield take();
      }
      waiting.push(buffer);
      bytes += buffer.length;
      if (bytes >= ENOUGH_BYTES) {
        const joined = take();
        for (let start = 0; start < joined.length; start += CHUNK_BYTES) {
          yield joined.subarray(start, start + CHUNK_BYTES);
          await nextTurn();
        }
      }
    }
    if (bytes > 0) {
      yield take();
    }
  } finally {
    await iterator.return?.();
  }
}
