import type { Client } from "@temporalio/client";
import { isGrpcCancelledError, isGrpcDeadlineError, isGrpcServiceError } from "@temporalio/client";
import { withTemporalDeadline } from "../program/withTemporalDeadline.ts";
import { CommandError, EXIT } from "./exitCodes.ts";

/** It answers within milliseconds where it is up. */
const PATIENCE_MS = 5000;

/** gRPC's UNAVAILABLE. */
const NO_ANSWER_CODES: ReadonlySet<number> = new Set([14]);

/** What the client wraps around the call's own error is not what matters. */
const innermost = (error: unknown): unknown =>
  error instanceof Error && error.cause instanceof Error ? innermost(error.cause) : error;

const isNoAnswer = (error: unknown): boolean =>
  isGrpcDeadlineError(error) ||
  isGrpcCancelledError(error) ||
  (isGrpcServiceError(error) && NO_ANSWER_CODES.has(error.code));

/**
 * Calls Temporal for a person who waits.
 * @throws CommandError when Temporal does not answer
 */
export const callTemporal = async <Result>(
  temporal: Client,
  work: () => Promise<Result>,
): Promise<Result> => {
  try {
    return await withTemporalDeadline(temporal, PATIENCE_MS, work);
  } catch (error) {
    if (isNoAnswer(innermost(error))) {
      throw new CommandError(
        EXIT.unreachable,
        "Temporal does not answer. Check TEMPORAL_ADDRESS, or whether `npm start` is up.",
        { cause: error },
      );
    }
    throw error;
  }
};
