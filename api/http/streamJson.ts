import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { ApiContext } from "./apiContext.ts";

async function* withFirst(
  first: IteratorResult<string>,
  rest: AsyncIterator<string>,
): AsyncGenerator<string> {
  try {
    for (let next = first; next.done !== true; next = await rest.next()) {
      yield next.value;
    }
  } finally {
    await rest.return?.();
  }
}

/**
 * Answers 200 with pieces of one JSON text as fast as the client reads them. A fault before the first piece is still an
 * ordinary error answer; a later one breaks the connection, so that half a document never looks like a whole one.
 */
export const streamJson = async (ctx: ApiContext, pieces: AsyncIterable<string>): Promise<void> => {
  const iterator = pieces[Symbol.asyncIterator]();
  const first = await iterator.next();
  ctx.status = 200;
  ctx.type = "application/json";
  ctx.respond = false;
  ctx.res.flushHeaders();
  await pipeline(Readable.from(withFirst(first, iterator)), ctx.res);
};
