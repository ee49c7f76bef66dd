import { IntegrityConstraintViolationError, InvalidInputError } from "slonik";
import { DomainError } from "../runtime/errors.rules.ts";

/** Class 22 of SQLSTATE: data exceptions, such as a sum that exceeds the range of its type. */
const isDataException = (error: unknown): boolean =>
  // Slonik names a malformed value, and passes the others on as pg's errors.
  error instanceof InvalidInputError ||
  (error instanceof Error && "code" in error && String(error.code).startsWith("22"));

/** Returns whether a batch failed because of its content, so that a part of it may succeed. */
export const isContentError = (error: unknown): boolean =>
  error instanceof DomainError ||
  error instanceof IntegrityConstraintViolationError ||
  isDataException(error);

/** Returns what is wrong with content that an error rejects. */
export const contentErrorReason = (error: unknown): string =>
  error instanceof DomainError ? error.message : "the database cannot store it";
