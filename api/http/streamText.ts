import { setImmediate as nextTurn } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { RequestContext } from "./requestContext.ts";
import { breakResponse } from "./handleErrors.ts";

/** The connection of a client that accepts nothing for this time is closed. */
export const WRITE_TIMEOUT_MS = 60_000;

/** After this many bytes of responses, the garbage collector runs. */
const BYTES_PER_COLLECTION = 8 * 1024 * 1024;

const exposeCollector = (): ((options: { readonly type: "minor" }) => void) => {
  setFlagsFromString("--expose-gc");
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the flag defines this function of V8 in every new context.
  const collect = runInNewContext("gc") as ReturnType<typeof exposeCollector>;
  setFlagsFromString("--no-expose-gc");
  return collect;
};

const collectGarbage = exposeCollector();

/** Of all responses together, because many responses that stop early leave as much garbage as a long one. */
let uncollectedBytes = 0;

/**
 * Runs a minor garbage collection now and then. Chunks are garbage as soon as they are sent, but V8 does not count memory
 * outside its heap and would let 64 MiB of them pile up.
 */
const countGarbage = (bytes: number): void => {
  uncollectedBytes += bytes;
  if (uncollectedBytes > BYTES_PER_COLLECTION) {
    uncollectedBytes = 0;
    collectGarbage({ type: "minor" });
  }
};

/** A client that accepts nothing for this time leaves its place if another one needs it. */
const STALLED_MS = 5000;
/** How often this is checked. */
const CHECK_INTERVAL_MS = 500;

/** Waits until the client has accepted what was written; breaks the response if that takes too long. */
const waitForClient = (
  { res: response, state: { gate } }: RequestContext,
  event: "drain" | "finish",
  timeoutMs: number,
): Promise<void> =>
  new Promise((resolve) => {
    if (response.destroyed) {
      resolve();
      return;
    }
    const startedAtMs = performance.now();
    const timer = setInterval(
      () => {
        const stalledMs = performance.now() - startedAtMs;
        const isNeeded = gate !== undefined && gate.waitingCount() > 0;
        if (stalledMs >= timeoutMs || (stalledMs >= STALLED_MS && isNeeded)) {
          breakResponse(response);
        }
      },
      Math.min(CHECK_INTERVAL_MS, timeoutMs),
    );
    const end = (): void => {
      clearInterval(timer);
      response.off(event, end);
      response.off("close", end);
      resolve();
    };
    response.on(event, end);
    response.on("close", end);
  });

/**
 * Responds 200 with the chunks of one text, as fast as the client reads them: JSON, unless the source has set another
 * type. An error before anything is sent is an ordinary error. A later one is thrown and the caller must close the
 * connection, so that half a document never looks complete. When the client disconnects, the source is closed.
 * @param writeTimeoutMs the connection of a client that does not accept a chunk within this time is closed, and earlier if
 *   another request needs its place
 */
export const streamText = async (
  ctx: RequestContext,
  chunks: AsyncIterable<string | Buffer>,
  writeTimeoutMs: number,
): Promise<void> => {
  // The server's time limit counts while the next chunk is read, too; waitForClient has the client's.
  ctx.res.on("timeout", () => undefined);
  const iterator = chunks[Symbol.asyncIterator]();
  let next = await iterator.next();
  let following = next.done === true ? null : iterator.next();
  // Undefined if the source has to wait for it.
  const second = await Promise.race([following ?? next, nextTurn()]);
  const { res: response } = ctx;
  ctx.status = 200;
  if (ctx.type === "") {
    ctx.type = "application/json";
  }
  ctx.respond = false;
  if (second?.done === true && next.done !== true) {
    // Most lists have one chunk. With its length, it is sent by one system call.
    countGarbage(next.value.length);
    ctx.length = Buffer.byteLength(next.value);
    response.end(next.value);
    await waitForClient(ctx, "finish", writeTimeoutMs);
    return;
  }
  try {
    while (next.done !== true && !response.destroyed) {
      countGarbage(next.value.length);
      if (!response.write(next.value)) {
        await waitForClient(ctx, "drain", writeTimeoutMs);
      }
      next = await (following ?? iterator.next());
      following = null;
    }
  } finally {
    await iterator.return?.();
  }
  if (!response.destroyed) {
    response.end();
    await waitForClient(ctx, "finish", writeTimeoutMs);
  }
};
