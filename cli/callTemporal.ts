import type { Client } from "@temporalio/client";
import {
  isGrpcCancelledError,
  isGrpcDeadlineError,
  isGrpcServiceError,
  ServiceError,
} from "@temporalio/client";
import { NamespaceNotFoundError, WorkflowNotFoundError } from "@temporalio/common";
import { withTemporalDeadline } from "../runtime/temporalClient.ts";
import { DomainError } from "../runtime/errors.rules.ts";
import { CommandError, describeError, EXIT } from "./exitCodes.ts";

/** A running server responds within milliseconds. */
const TIMEOUT_MS = 5000;

const UNAVAILABLE: ReadonlySet<number> = new Set([14]);

/** The client wraps the error of the call. */
const innermost = (error: unknown): unknown =>
  error instanceof Error && error.cause instanceof Error ? innermost(error.cause) : error;

const readableErrorOf = (error: unknown): Error | null => {
  const cause = innermost(error);
  const isUnavailable = isGrpcServiceError(cause) && UNAVAILABLE.has(cause.code);
  if (isGrpcDeadlineError(cause) || isGrpcCancelledError(cause) || isUnavailable) {
    return new CommandError(
      EXIT.unreachable,
      "Temporal does not respond. Check TEMPORAL_ADDRESS, or that `npm start` is running.",
      { cause: error },
    );
  }
  if (error instanceof WorkflowNotFoundError) {
    return new DomainError(
      "record_not_found",
      `Temporal has no workflow ${error.workflowId}: ` +
        "the id is wrong, or Temporal has deleted the workflow after its retention time. See impact workflow list.",
      { cause: error },
    );
  }
  return error instanceof ServiceError ||
    error instanceof NamespaceNotFoundError ||
    isGrpcServiceError(error)
    ? new CommandError(EXIT.unreachable, describeError(error), { cause: error })
    : null;
};

/**
 * Calls Temporal with a timeout that suits an interactive command.
 * @throws CommandError if Temporal does not respond, rejects the call or has no such namespace
 * @throws DomainError record_not_found if it has no such workflow
 */
export const callTemporal = async <Result>(
  temporal: Client,
  work: () => Promise<Result>,
): Promise<Result> => {
  try {
    return await withTemporalDeadline(temporal, TIMEOUT_MS, work);
  } catch (error) {
    throw readableErrorOf(error) ?? error;
  }
};
