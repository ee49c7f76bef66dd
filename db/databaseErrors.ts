import { codeOf, DomainError, UnavailableError } from "../runtime/errors.rules.ts";

export const violates = (error: unknown, constraint: string): boolean =>
  error instanceof Error && "constraint" in error && error.constraint === constraint;

/** The codes, of PostgreSQL and of Node, of a connection that an administrator, a time limit or the network has ended. */
const LOST = new Set(["57P01", "25P03", "ECONNRESET"]);

export const isConnectionLost = (error: unknown): error is Error =>
  error instanceof Error &&
  (/connection terminated/iu.test(error.message) ||
    LOST.has(codeOf(error)) ||
    isConnectionLost(error.cause));

/** Classes of SQLSTATE: data exceptions, such as a sum that exceeds the range of its type, and violated constraints. */
const OF_CONTENT = /^2[23]/u;

/** Returns whether a batch failed because of its content, so that a part of it may succeed. */
export const isContentError = (error: unknown): boolean =>
  error instanceof DomainError || OF_CONTENT.test(codeOf(error));

export const contentErrorReason = (error: unknown): string =>
  error instanceof DomainError ? error.message : "the database cannot store it";

/** PostgreSQL's codes for a server that accepts no writes, and for one whose disk, memory or connections are used up. */
const REFUSED_FOR_NOW = /^(?:25006|53.{3})$/u;

/**
 * Returns the server's error if it has refused a statement that it may accept later, otherwise null. It has rolled the
 * statement's transaction back.
 */
export const findRefusalForNow = (error: unknown): Error | null => {
  if (!(error instanceof Error)) {
    return null;
  }
  return REFUSED_FOR_NOW.test(codeOf(error)) ? error : findRefusalForNow(error.cause);
};

/** Returns the error for work that the database cannot do now, and of which nothing was done. */
export const databaseUnavailable = (cause: unknown): UnavailableError =>
  new UnavailableError("the service is temporarily unavailable, try again", { cause });

/** PostgreSQL's code for a statement that `statement_timeout` has cancelled. */
const QUERY_CANCELED = "57014";

export const isTimeout = (error: unknown): boolean => codeOf(error) === QUERY_CANCELED;

export const queryTimeout = (cause: unknown): DomainError =>
  new DomainError(
    "query_timeout",
    "the query takes too long; narrow its filters, for example to an id, an email address or a shorter range of days",
    { cause },
  );
