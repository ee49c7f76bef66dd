import type { Client } from "@temporalio/client";
import type { Logger } from "pino";
import type { DispatcherLease } from "../../../modules/billing/sending/dispatcherLease.sql.ts";
import type { Context } from "../../../runtime/context.ts";

/** A leadership: its statements check the lease, and no work begins after the signal is aborted. */
type Leadership = { readonly lease: DispatcherLease; readonly signal: AbortSignal };

/** A kind of work that a leader does once a second. It may keep what it knows for the next pass, also of a later leadership. */
export type Pass = (leadership: Leadership) => Promise<void>;

export type DispatchContext = Context & {
  readonly temporal: Client;
  /** The deployment's name in Temporal. */
  readonly deployment: string;
  readonly logger: Logger;
  /** After how many wakes without progress a workflow is restarted, unless it waits for its next attempt. */
  readonly wakesUntilStuck?: number;
};
