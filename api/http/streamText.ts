import type { RequestContext } from "./requestContext.ts";
import { breakResponse } from "./handleErrors.ts";

/** The connection of a client that accepts nothing for this time is closed. */
export const WRITE_TIMEOUT_MS = 60_000;

/** A client that accepts nothing for this time leaves its place if another one needs it. */
const STALLED_MS = 5000;
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
  chunks: AsyncIterable<string>,
  writeTimeoutMs: number,
): Promise<void> => {
  const { res: response } = ctx;
  // The server's time limit counts while the next chunk is read, too; waitForClient has the client's.
  response.on("timeout", () => undefined);
  const start = (): void => {
    ctx.status = 200;
    ctx.respond = false;
    if (ctx.type === "") {
      ctx.type = "application/json";
    }
  };
  // Most lists have one chunk. With its length, it is sent by one system call.
  let last = "";
  for await (const chunk of chunks) {
    if (last !== "") {
      start();
      if (!response.write(last)) {
        await waitForClient(ctx, "drain", writeTimeoutMs);
      }
    }
    if (response.destroyed) {
      return;
    }
    last = chunk;
  }
  start();
  if (!response.headersSent) {
    ctx.length = Buffer.byteLength(last);
  }
  response.end(last);
  await waitForClient(ctx, "finish", writeTimeoutMs);
};
