import type { UnusableHits } from "./readHits.ts";

/** Starts the time limit of one attempt, from connecting to the last byte. */
export type StartTimeout = () => AbortSignal;

/** How to reach a remote provider. */
export type RemoteSettings<Credentials> = Credentials & {
  /** Base URL, without a trailing slash. */
  readonly apiBase: string;
  readonly startTimeout: StartTimeout;
  /** Called after each search whose response has records that cannot be used. */
  readonly onUnusable: (unusable: UnusableHits) => void;
};
