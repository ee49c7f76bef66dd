import { counted } from "./counted.rules.ts";
import { z } from "zod";

/** The codes of all domain errors. The API maps them to HTTP statuses, the command line to exit codes. */
export type ErrorCode =
  | "request_invalid"
  | "key_invalid"
  | "record_not_found"
  | "event_gone"
  | "usage_not_on_file"
  | "outside_billing_cycle"
  | "queue_full"
  | "query_timeout"
  | "charity_not_found"
  | "charity_unconfirmed"
  | "donations_not_subscribed"
  | "subscription_inactive"
  | "rate_limited"
  | "balance_insufficient"
  | "feature_disabled"
  | "daily_limit_reached";

/** An error that the caller can act on. Any other error is a bug or an outage. */
export class DomainError extends Error {
  override readonly name = "DomainError";
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/**
 * Returns the error for input that the caller must change.
 * @param message names the field first, such as `quantity: must be at least 1`, if one field is wrong
 */
export const invalidRequest = (message: string, options?: ErrorOptions): DomainError =>
  new DomainError("request_invalid", message, options);

/** A service that ours depends on has failed. The message is for the client, the cause for the log. */
export class OutageError extends Error {
  override readonly name = "OutageError";
}

/** A service that ours depends on cannot be reached or used, and nothing was done. The message is for the client, the cause for the log. */
export class UnavailableError extends Error {
  override readonly name = "UnavailableError";
}

const MESSAGES_SHOWN = 20;

const describeRejections = (
  rejections: ReadonlyMap<number, DomainError>,
  itemCount: number,
): string => {
  const lines = [...rejections]
    .slice(0, MESSAGES_SHOWN)
    .map(([index, { message }]) => `items.${index}: ${message}`);
  const more =
    rejections.size > MESSAGES_SHOWN ? `; and ${rejections.size - MESSAGES_SHOWN} more` : "";
  const all = counted(itemCount, "item");
  return `nothing was recorded, because ${counted(rejections.size, `of ${all} is`, `of ${all} are`)} rejected: ${lines.join("; ")}${more}`;
};

/** A batch of which nothing was recorded, because some of its items are rejected. */
export class BatchRejectedError extends Error {
  override readonly name = "BatchRejectedError";
  readonly rejections: ReadonlyMap<number, DomainError>;

  constructor(rejections: ReadonlyMap<number, DomainError>, itemCount: number) {
    super(describeRejections(rejections, itemCount));
    this.rejections = rejections;
  }
}

/** Something that a program needs to start is missing; the message says what to do. */
export class StartupError extends Error {
  override readonly name: string = "StartupError";
}

/** The database's schema is not this release's, or cannot be migrated as the database is. */
export class SchemaError extends StartupError {
  override readonly name = "SchemaError";
}

/** Returns the code of an error of PostgreSQL, or of Node; empty if it has none. */
export const codeOf = (error: unknown): string =>
  error instanceof Error && "code" in error ? String(error.code) : "";

const details = z.object({
  code: z.string().optional().catch(undefined),
  message: z.string(),
  stderr: z.string().optional().catch(undefined),
});

/** Returns the details of an error of a system call, a program or a connection. */
export const errorDetails = (error: unknown): z.output<typeof details> => {
  const { data } = details.safeParse(error);
  return data ?? { message: String(error) };
};
