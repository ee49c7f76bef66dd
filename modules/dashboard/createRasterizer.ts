import { Worker } from "node:worker_threads";
import { DomainError } from "../../runtime/errors.rules.ts";
import type { DrawRequest, DrawResponse } from "./rasterizeThread.ts";

/** Draws SVG that we have made as a PNG. */
export type Rasterize = (svg: string) => Promise<Buffer>;

/** Each takes some tenths of a second. */
const MAXIMUM_WAITING = 20;
/** A busy machine needs seconds for the first picture. */
const DEADLINE_MS = 15_000;
/** The renderer takes about 60 MB. */
const IDLE_MS = 60_000;

type Waiting = PromiseWithResolvers<Buffer> & { readonly timer: NodeJS.Timeout };

const tooBusy = (message: string): DomainError => new DomainError("queue_full", message);

/**
 * Creates a rasterizer with one thread of its own, which draws one picture at a time and ends when it has been idle. So
 * pictures cost at most one processor, and requests never wait for them.
 * @throws DomainError queue_full if too many pictures are waiting, or one takes too long
 */
export const createRasterizer = ({ deadlineMs = DEADLINE_MS } = {}): Rasterize => {
  const waiting = new Map<number, Waiting>();
  let thread: Worker | null = null;
  let idle: NodeJS.Timeout | undefined;
  let lastId = 0;

  const stop = (error: Error): void => {
    const stopped = thread;
    thread = null;
    void stopped?.terminate();
    for (const { reject, timer } of waiting.values()) {
      clearTimeout(timer);
      reject(error);
    }
    waiting.clear();
  };

  const settle = (response: DrawResponse): void => {
    const found = waiting.get(response.id);
    waiting.delete(response.id);
    clearTimeout(found?.timer);
    if ("png" in response) {
      found?.resolve(Buffer.from(response.png));
    } else {
      found?.reject(new Error(`A picture could not be drawn: ${response.error}`));
    }
    if (waiting.size === 0) {
      idle = setTimeout(() => stop(new Error("The thread was idle.")), IDLE_MS).unref();
    }
  };

  const start = (): Worker => {
    const started = new Worker(new URL("rasterizeThread.ts", import.meta.url));
    started.unref();
    started.on("message", settle);
    started.on("error", (error) => {
      if (thread === started) {
        stop(error instanceof Error ? error : new Error(String(error)));
      }
    });
    return started;
  };

  return (svg) => {
    if (waiting.size >= MAXIMUM_WAITING) {
      return Promise.reject(tooBusy("too many pictures are being drawn; retry later"));
    }
    clearTimeout(idle);
    thread ??= start();
    lastId += 1;
    const id = lastId;
    const timer = setTimeout(
      () => stop(tooBusy("the picture takes too long; retry later")),
      deadlineMs,
    );
    const promised: Waiting = { ...Promise.withResolvers<Buffer>(), timer };
    waiting.set(id, promised);
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- threads have no origins.
    thread.postMessage({ id, svg } satisfies DrawRequest);
    return promised.promise;
  };
};
