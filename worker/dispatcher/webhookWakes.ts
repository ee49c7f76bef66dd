import type { DueEndpoint } from "../../db/webhooks/deliveries.ts";

/** The delay before an endpoint without progress is woken again; it doubles up to the maximum. Its worker is busy, or gone. */
const INITIAL_DELAY_MS = 2000;
const MAX_DELAY_MS = 60 * 1000;

/** So many signals do not delay the other work of a small Temporal server. The other endpoints follow a second later. */
const MAX_WAKES_PER_PASS = 40;

type Wake = { readonly dueAtMs: number; readonly atMs: number; readonly delayMs: number };

export type WebhookWakes = {
  /** Returns the endpoints to wake now, those first that were woken longest ago. */
  readonly due: (endpoints: readonly DueEndpoint[], now: Date) => readonly DueEndpoint[];
  readonly recordWake: (endpoint: DueEndpoint, now: Date) => void;
};

/**
 * Decides when an endpoint's workflow is woken: immediately when its longest due delivery is another one than before,
 * otherwise with exponential backoff.
 */
export const createWebhookWakes = (): WebhookWakes => {
  let wakes = new Map<string, Wake>();
  return {
    due: (endpoints, now) => {
      const earlier = wakes;
      wakes = new Map();
      const due: { readonly endpoint: DueEndpoint; readonly lastWakeMs: number }[] = [];
      for (const endpoint of endpoints) {
        const wake = earlier.get(endpoint.endpointId);
        if (wake) {
          wakes.set(endpoint.endpointId, wake);
        }
        const hasProgressed = wake?.dueAtMs !== endpoint.dueAt.getTime();
        if (hasProgressed || now.getTime() - wake.atMs >= wake.delayMs) {
          due.push({ endpoint, lastWakeMs: wake?.atMs ?? 0 });
        }
      }
      return due
        .toSorted((left, right) => left.lastWakeMs - right.lastWakeMs)
        .slice(0, MAX_WAKES_PER_PASS)
        .map(({ endpoint }) => endpoint);
    },
    recordWake: ({ endpointId, dueAt }, now) => {
      const earlier = wakes.get(endpointId);
      const delayMs =
        earlier?.dueAtMs === dueAt.getTime()
          ? Math.min(earlier.delayMs * 2, MAX_DELAY_MS)
          : INITIAL_DELAY_MS;
      wakes.set(endpointId, { dueAtMs: dueAt.getTime(), atMs: now.getTime(), delayMs });
    },
  };
};
