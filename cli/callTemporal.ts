import type { Client } from "@temporalio/client";
import {
  isGrpcCancelledError,
  isGrpcDeadlineError,
  isGrpcServiceError,
  ServiceError,
} from "@temporalio/client";
import { NamespaceNotFoundError, WorkflowNotFoundError } from "@temporalio/common";
import { withTemporalDeadline } from "../runtime/temporalClient.ts";
import { DomainError, UnavailableError } from "../runtime/errors.rules.ts";
import { describeError } from "./exitCodes.ts";

/** A running server responds within milliseconds. */
const TIMEOUT_MS = 5000;

/** The status of gRPC for a server that cannot be reached. */
const UNAVAILABLE = "14";

/** The client wraps the error of the call. */
const innermost = (error: unknown): unknown =>
  error instanceof Error && error.cause instanceof Error ? innermost(error.cause) : error;

const readableErrorOf = (error: unknown): unknown => {
  if (error instanceof WorkflowNotFoundError) {
    return new DomainError(
      "record_not_found",
      `Temporal has no workflow ${error.workflowId}: the id is wrong, or Temporal has deleted the workflow after its retention time. See impact workflow list.`,
    );
  }
  const call = innermost(error);
  const isUnavailable = isGrpcServiceError(call) && String(call.code) === UNAVAILABLE;
  if (isUnavailable || isGrpcDeadlineError(call) || isGrpcCancelledError(call)) {
    return new UnavailableError(
      "Temporal does not respond. Check TEMPORAL_ADDRESS, or that `npm start` is running.",
    );
  }
  const isRejected = error instanceof ServiceError || error instanceof NamespaceNotFoundError;
  return isRejected || isGrpcServiceError(error)
    ? new UnavailableError(describeError(error))
    : error;
};

/**
 * Calls Temporal with a timeout that suits an interactive command.
 * @throws UnavailableError if Temporal does not respond, rejects the call or has no such namespace
 * @throws DomainError record_not_found if it has no such workflow
 */
export const callTemporal = async <Result>(temporal: Client, work: () => Promise<Result>) => {
  try {
    return await withTemporalDeadline(temporal, TIMEOUT_MS, work);
  } catch (error) {
    throw readableErrorOf(error);
  }
};
