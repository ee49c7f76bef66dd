import { StatementTimeoutError } from "slonik";
import { DomainError } from "../../runtime/errors.rules.ts";

/** PostgreSQL's code for a statement that `statement_timeout` has cancelled. */
const QUERY_CANCELED = "57014";

/** Returns whether a statement took too long. */
export const isTimeout = (error: unknown): boolean =>
  error instanceof StatementTimeoutError ||
  (error instanceof Error && "code" in error && error.code === QUERY_CANCELED);

/**
 * Converts the error of a statement that took too long to a DomainError and returns other errors unchanged.
 * @param advice what the client can change
 */
export const asQueryTimeout = (
  error: unknown,
  advice = "select fewer records, for example a shorter range of days",
): unknown =>
  isTimeout(error)
    ? new DomainError("query_timeout", `the query takes too long; ${advice}`, { cause: error })
    : error;
