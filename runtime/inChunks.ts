import { setImmediate as nextTurn } from "node:timers/promises";

/** How much of a list is written at a time; its client must accept that within the write timeout. */
const CHUNK_LENGTH = 32 * 1024;

/** A page that comes later than this is passed on at once, so that proxies do not mistake a slow list for an idle connection. */
const LONGEST_WAIT_MS = 1000;

/**
 * Joins the pieces of a list's pages to chunks of about 32 KiB. What is joined is held back until there is enough, so that an
 * early error is no half file. Other requests of the process have their turn after each chunk.
 */
export async function* inChunks(
  pages: AsyncIterable<Iterable<string>>,
): AsyncGenerator<string, void, void> {
  let chunk = "";
  let passedOnAtMs = performance.now();
  for await (const page of pages) {
    for (const piece of page) {
      chunk += piece;
      if (chunk.length >= CHUNK_LENGTH) {
        yield chunk;
        chunk = "";
        passedOnAtMs = performance.now();
        await nextTurn();
      }
    }
    if (chunk !== "" && performance.now() - passedOnAtMs >= LONGEST_WAIT_MS) {
      yield chunk;
      chunk = "";
      passedOnAtMs = performance.now();
    }
  }
  if (chunk !== "") {
    yield chunk;
  }
}
