import { ApplicationFailure } from "@temporalio/common";
import type { ErrorCode } from "../runtime/errors.rules.ts";
import { DomainError } from "../runtime/errors.rules.ts";

/** Errors that no later attempt can resolve. Most others pass with time or are corrected by the partner. */
const PERMANENT: ReadonlySet<ErrorCode> = new Set(["record_not_found"]);

/** Marks permanent errors of the work as non-retryable; Temporal retries all others. */
export const asNonRetryable = async <Result>(work: () => Promise<Result>): Promise<Result> => {
  try {
    return await work();
  } catch (error) {
    throw error instanceof DomainError && PERMANENT.has(error.code)
      ? ApplicationFailure.create({
          message: error.message,
          type: error.code,
          nonRetryable: true,
          cause: error,
        })
      : error;
  }
};
