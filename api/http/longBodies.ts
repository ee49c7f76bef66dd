import type { ServerResponse } from "node:http";
import { currentClient } from "../../runtime/client.ts";
import { Gate } from "../../runtime/gate.ts";

/** Parsing a longer body can take as long as tens of other requests. */
export const LONG_BODY_BYTES = 24 * 1024;

/** Of both interfaces. */
const gate = new Gate({ places: 1 });

/**
 * Waits until no other long body is parsed, because that can take as long as hundreds of requests. Clients take turns.
 * @returns what ends the turn, and must be called. As much time as the turn took is left to other requests.
 * @throws DomainError queue_full, request_invalid if the client disconnects
 */
export const takeTurnOfLongBody = async (response: ServerResponse): Promise<() => void> => {
  const pass = gate.enter(currentClient());
  if (!pass.isRunning) {
    const turn = gate.wait(pass);
    const leave = (): void => gate.end(pass);
    response.once("close", leave);
    if (response.destroyed) {
      leave();
    }
    try {
      await turn;
    } finally {
      response.off("close", leave);
    }
  }
  const beganAtMs = performance.now();
  return () => {
    setTimeout(() => gate.end(pass), performance.now() - beganAtMs);
  };
};
