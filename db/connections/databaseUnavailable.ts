import {
  BackendTerminatedError,
  BackendTerminatedUnexpectedlyError,
  ConnectionError,
} from "slonik";
import { UnavailableError } from "../../runtime/errors.rules.ts";

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
  return "code" in error && REFUSED_FOR_NOW.test(String(error.code))
    ? error
    : findRefusalForNow(error.cause);
};

/** Returns the error for work that the database cannot do now, and of which nothing was done. */
export const databaseUnavailable = (cause: unknown): UnavailableError =>
  new UnavailableError("the service is temporarily unavailable, try again", { cause });

/** Returns whether a connection could not be opened, or was closed by the server. */
export const isConnectionLost = (error: unknown): boolean =>
  error instanceof ConnectionError ||
  error instanceof BackendTerminatedError ||
  error instanceof BackendTerminatedUnexpectedlyError;
