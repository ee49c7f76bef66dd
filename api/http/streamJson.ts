import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { ApiContext } from "./apiContext.ts";
import { collectEagerly } from "./collectEagerly.ts";

/** Passes the pieces on and remembers their own fault; what the reader throws at them is another thing. */
const createSource = (
  first: IteratorResult<string | Buffer>,
  rest: AsyncIterator<string | Buffer>,
) => {
  let fault: { readonly error: unknown } | null = null;
  const read = async (): Promise<IteratorResult<string | Buffer>> => {
    try {
      return await rest.next();
    } catch (error) {
      fault = { error };
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
  return { pieces: generate(), fault: () => fault };
};

/**
 * Answers 200 with pieces of one JSON text as fast as the client reads them. A fault before the first piece is still an
 * ordinary error answer; a later one breaks the connection, so that half a document never looks like a whole one. A
 * client that leaves ends the pieces.
 */
export const streamJson = async (
  ctx: ApiContext,
  pieces: AsyncIterable<string | Buffer>,
): Promise<void> => {
  const iterator = pieces[Symbol.asyncIterator]();
  const source = createSource(await iterator.next(), iterator);
  ctx.status = 200;
  ctx.type = "application/json";
  ctx.respond = false;
  try {
    await pipeline(Readable.from(collectEagerly(source.pieces)), ctx.res);
  } catch {
    const fault = source.fault();
    if (fault) {
      throw fault.error;
    }
  }
};
