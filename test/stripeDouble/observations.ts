import type { ServerResponse } from "node:http";

/** One call and its result; the status is 0 if there was no complete response. */
export type RecordedCall = {
  readonly method: string;
  readonly path: string;
  readonly form: string;
  readonly idempotencyKey: string | null;
  readonly status: number;
  readonly replayed: boolean;
};

/** What the double observed, besides its state at Stripe. */
export type Observations = {
  readonly calls: RecordedCall[];
  readonly problems: string[];
  /** The calls that a `hold` keeps: each function continues one. */
  readonly held: Set<() => void>;
  /** The calls that a `hang` leaves without a response, while their clients stay connected. */
  readonly hanging: Set<ServerResponse>;
  overlaps: number;
};

export const createObservations = (): Observations => ({
  calls: [],
  problems: [],
  held: new Set(),
  hanging: new Set(),
  overlaps: 0,
});
