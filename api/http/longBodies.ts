import { createFairQueue } from "../../runtime/server/createFairQueue.ts";

/** Parsing a longer body can take as long as tens of other requests. */
export const LONG_BODY_BYTES = 24 * 1024;

type Waiting = { readonly start: () => void };

/** Of both interfaces. What waits is limited by the memory for bodies. */
const waiting = createFairQueue<Waiting>(Infinity);
let isBusy = false;

const startNext = (): void => {
  const next = waiting.take();
  isBusy = next !== undefined;
  next?.start();
};

/** Returns a function that ends a turn. As much time as the turn took is left to other requests. */
const beginTurn = (): (() => void) => {
  isBusy = true;
  const beganAtMs = performance.now();
  let hasEnded = false;
  return () => {
    if (!hasEnded) {
      hasEnded = true;
      setTimeout(startNext, performance.now() - beganAtMs);
    }
  };
};

/**
 * Waits until no other long body is parsed, because that can take as long as hundreds of requests. Clients take turns.
 * @returns what ends the turn, and must be called
 * @throws the reason of the signal, when it is aborted
 */
export const takeTurnOfLongBody = (
  clientName: string,
  signal: AbortSignal,
): Promise<() => void> => {
  signal.throwIfAborted();
  if (!isBusy) {
    return Promise.resolve(beginTurn());
  }
  return new Promise((resolve, reject) => {
    const leave = (): void => {
      waiting.remove(clientName, entry);
      reject(signal.reason);
    };
    const entry = {
      start: () => {
        signal.removeEventListener("abort", leave);
        resolve(beginTurn());
      },
    };
    signal.addEventListener("abort", leave, { once: true });
    waiting.add(clientName, entry);
  });
};
