import { Gate } from "../../runtime/gate.ts";

/** Parsing a longer body can take as long as tens of other requests. */
export const LONG_BODY_BYTES = 24 * 1024;

/** Of both interfaces. */
const gate = new Gate({ places: 1 });

/**
 * Waits until no other long body is parsed, because that can take as long as hundreds of requests. Clients take turns.
 * @returns what ends the turn, and must be called. As much time as the turn took is left to other requests.
 * @throws DomainError queue_full; the reason of the signal, when it is aborted
 */
export const takeTurnOfLongBody = async (
  clientName: string,
  signal: AbortSignal,
): Promise<() => void> => {
  const pass = await gate.admit(clientName, signal);
  const beganAtMs = performance.now();
  return () => {
    setTimeout(() => gate.end(pass), performance.now() - beganAtMs);
  };
};
