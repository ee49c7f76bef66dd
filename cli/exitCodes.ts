import { ConfigError } from "../runtime/config/config.ts";
import type { ErrorCode } from "../runtime/errors.rules.ts";
import {
  DomainError,
  SchemaError,
  StartupError,
  UnavailableError,
  codeOf,
} from "../runtime/errors.rules.ts";

export const EXIT = { ok: 0, failed: 1, usage: 2, notFound: 3, unreachable: 4 } as const;

export const EXIT_CODES_HELP = `
Exit codes:
  0  success
  1  the command failed, or a check or comparison found a problem
  2  invalid command line, file or setting, or a value that the records do not allow
  3  record or workflow not found
  4  the database, Temporal, the API or the processor cannot be reached,
     or the processor's key is missing, not accepted or of another account
`;

/** An error with its own exit code; its message says what to do. */
export class CommandError extends Error {
  override readonly name = "CommandError";
  readonly exitCode: number;

  constructor(exitCode: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.exitCode = exitCode;
  }
}

/** The exit codes of use cases' errors that are not `failed`. */
const EXIT_OF: Partial<Record<ErrorCode, number>> = {
  request_invalid: EXIT.usage,
  record_not_found: EXIT.notFound,
  event_gone: EXIT.notFound,
  charity_not_found: EXIT.notFound,
};

/** Codes of Node and PostgreSQL for a server that cannot be reached or refuses the connection. */
const UNREACHABLE_CODES = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "EAI_AGAIN",
  "ETIMEDOUT",
  "28000",
  "28P01",
  "3D000",
  "57P01",
  "57P03",
]);

/** Errors of slonik and of Stripe's SDK, by name, so that only commands that use these load them. */
const UNREACHABLE_ERRORS = new Set([
  "ConnectionError",
  "BackendTerminatedError",
  "BackendTerminatedUnexpectedlyError",
  "ProcessorUnavailableError",
  "ProcessorMismatchError",
  "StripeAuthenticationError",
  "StripeConnectionError",
  "StripeAPIError",
]);

const isUnreachable = (error: Error): boolean =>
  (error instanceof StartupError && !(error instanceof SchemaError)) ||
  error instanceof UnavailableError ||
  UNREACHABLE_CODES.has(codeOf(error)) ||
  [error.constructor.name, error.name, "type" in error ? String(error.type) : ""].some((name) =>
    UNREACHABLE_ERRORS.has(name),
  );

export const exitCodeOf = (error: unknown): number => {
  if (error instanceof CommandError) {
    return error.exitCode;
  }
  if (error instanceof DomainError) {
    return EXIT_OF[error.code] ?? EXIT.failed;
  }
  if (error instanceof ConfigError) {
    return EXIT.usage;
  }
  return error instanceof Error && isUnreachable(error) ? EXIT.unreachable : EXIT.failed;
};

const INSUFFICIENT_PRIVILEGE = "42501";

/** Returns the error's message, followed by its causes' messages in parentheses. */
export const describeError = (error: unknown): string => {
  if (!(error instanceof Error)) {
    return String(error);
  }
  // These messages are complete.
  const cause = error instanceof CommandError || error instanceof DomainError ? null : error.cause;
  const reason =
    cause instanceof Error && cause.message !== "" && !error.message.includes(cause.message)
      ? `${error.message} (${describeError(cause)})`
      : error.message;
  return codeOf(error) === INSUFFICIENT_PRIVILEGE
    ? `${reason}. Check the role of DATABASE_URL; impact migrate grants it what the service needs.`
    : reason || codeOf(error);
};
