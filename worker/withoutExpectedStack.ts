import type { LogMetadata } from "@temporalio/worker";

/** Returns an error's message and those of its causes. */
const reasonOf = ({ message, cause }: Error): string =>
  cause instanceof Error && cause.message !== message ? `${message}: ${reasonOf(cause)}` : message;

/**
 * Returns the fields of a line of the SDK's log with the reason in place of the error, if a stack says nothing more: an
 * activity ended as the program decided, such as for a record that is gone, or a workflow failed because of an activity,
 * whose own line has the stack.
 */
export const withoutExpectedStack = (
  message: string,
  { error, ...fields }: LogMetadata,
): LogMetadata => {
  if (!(error instanceof Error)) {
    return error === undefined ? fields : { ...fields, error };
  }
  const isExpected =
    message === "Workflow failed" || ("nonRetryable" in error && error.nonRetryable === true);
  return { ...fields, ...(isExpected ? { reason: reasonOf(error) } : { error }) };
};
