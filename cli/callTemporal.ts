import type { Client } from "@temporalio/client";
import {
  isGrpcCancelledError,
  isGrpcDeadlineError,
  isGrpcServiceError,
  ServiceError,
} from "@temporalio/client";
import { WorkflowNotFoundError } from "@temporalio/common";
import { withTemporalDeadline } from "../program/temporal/temporalClient.ts";
import { CommandError, describeError, EXIT } from "./exitCodes.ts";

/** A running server responds within milliseconds. */
const TIMEOUT_MS = 5000;

/** gRPC's UNAVAILABLE. */
const UNREACHABLE_CODES: ReadonlySet<number> = new Set([14]);

/** The client wraps the error of the call. */
const innermost = (error: unknown): unknown =>
  error instanceof Error && error.cause instanceof Error ? innermost(error.cause) : error;

const isUnreachable = (error: unknown): boolean =>
  isGrpcDeadlineError(error) ||
  isGrpcCancelledError(error) ||
  (isGrpcServiceError(error) && UNREACHABLE_CODES.has(error.code));

/**
 * Calls Temporal with a timeout that suits an interactive command.
 * @throws CommandError if Temporal does not respond, rejects the call or has no such workflow
 */
export const callTemporal = async <Result>(
  temporal: Client,
  work: () => Promise<Result>,
): Promise<Result> => {
  try {
    return await withTemporalDeadline(temporal, TIMEOUT_MS, work);
  } catch (error) {
    if (isUnreachable(innermost(error))) {
      throw new CommandError(
        EXIT.unreachable,
        "Temporal does not respond. Check TEMPORAL_ADDRESS, or that `npm start` is running.",
        { cause: error },
      );
    }
    if (error instanceof WorkflowNotFoundError) {
      throw new CommandError(EXIT.notFound, describeError(error), { cause: error });
    }
    if (error instanceof ServiceError || isGrpcServiceError(error)) {
      throw new CommandError(EXIT.unreachable, describeError(error), { cause: error });
    }
    throw error;
  }
};
