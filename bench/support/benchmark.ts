import type { Result } from "./compareRounds.ts";
import type { Services } from "./startServices.ts";

/** What a run measures with, as the options of the command line say. */
export type Sizes = {
  readonly rounds: number;
  readonly roundMs: number;
  readonly connections: number;
  /** Accounts, where there are many. */
  readonly accounts: number;
  /** Registrations of the long list. */
  readonly listed: number;
  /** Meter events of each account. */
  readonly events: number;
  /** Calls that are made one after the other. */
  readonly calls: number;
  /** Requests a second at the steady rate. */
  readonly rate: number;
  readonly beside: readonly Neighbor[];
};

/** What POSTs are measured beside; `all` is all of the others together. */
export const NEIGHBORS = ["list", "import", "planting", "all"] as const;

export type Neighbor = (typeof NEIGHBORS)[number];

export type Benchmark = (run: {
  readonly services: Services;
  readonly sizes: Sizes;
  /** Writes a line about the progress. */
  readonly log: (line: string) => void;
}) => Promise<readonly Result[]>;
