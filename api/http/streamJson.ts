import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { ApiContext } from "./apiContext.ts";

/** After this many bytes of a response, the garbage collector runs. */
const BYTES_PER_COLLECTION = 8 * 1024 * 1024;

const exposeCollector = (): ((options: { readonly type: "minor" }) => void) => {
  setFlagsFromString("--expose-gc");
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the flag defines this function of V8 in every new context.
  const collect = runInNewContext("gc") as ReturnType<typeof exposeCollector>;
  setFlagsFromString("--no-expose-gc");
  return collect;
};

const collectGarbage = exposeCollector();

/**
 * Yields the chunks and runs a minor garbage collection now and then. Chunks are garbage as soon as they are sent, but V8
 * does not count memory outside its heap and would let 64 MiB of them pile up.
 */
async function* withGarbageCollection(
  chunks: AsyncIterable<string | Buffer>,
): AsyncGenerator<string | Buffer, void, void> {
  let uncollectedBytes = 0;
  for await (const chunk of chunks) {
    uncollectedBytes += chunk.length;
    if (uncollectedBytes > BYTES_PER_COLLECTION) {
      uncollectedBytes = 0;
      collectGarbage({ type: "minor" });
    }
    yield chunk;
  }
}

/** Yields the chunks and records an error of their source, to distinguish it from a connection that the client closed. */
const trackFailure = (
  first: IteratorResult<string | Buffer>,
  rest: AsyncIterator<string | Buffer>,
) => {
  let failure: { readonly error: unknown } | null = null;
  const read = async (): Promise<IteratorResult<string | Buffer>> => {
    try {
      return await rest.next();
    } catch (error) {
      failure = { error };
      throw error;
    }
  };
  async function* generate(): AsyncGenerator<string | Buffer> {
    try {
      for (let next = first; next.done !== true; next = await read()) {
        yield next.value;
      }
    } finally {
      await rest.return?.();
    }
  }
  return { chunks: generate(), failure: () => failure };
};

/**
 * Responds 200 with the chunks of one JSON text as fast as the client reads them. If the first chunk fails, the response
 * is an ordinary error; if a later one does, the connection is closed, so that half a document never looks complete.
 * When the client disconnects, the source is closed.
 */
export const streamJson = async (
  ctx: ApiContext,
  chunks: AsyncIterable<string | Buffer>,
): Promise<void> => {
  const iterator = chunks[Symbol.asyncIterator]();
  const source = trackFailure(await iterator.next(), iterator);
  ctx.status = 200;
  ctx.type = "application/json";
  ctx.respond = false;
  try {
    await pipeline(Readable.from(withGarbageCollection(source.chunks)), ctx.res);
  } catch {
    const failure = source.failure();
    if (failure) {
      throw failure.error;
    }
  }
};
