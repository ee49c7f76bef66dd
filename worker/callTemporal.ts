import type { Client } from "@temporalio/client";
import { withTemporalDeadline } from "../runtime/temporalClient.ts";

const TIMEOUT_MS = 4000;

/** Calls Temporal with the timeout of calls that the worker repeats if they fail. */
export const callTemporal = <Result>(
  temporal: Client,
  work: () => Promise<Result>,
): Promise<Result> => withTemporalDeadline(temporal, TIMEOUT_MS, work);
