import { IntegrityConstraintViolationError, SlonikError } from "slonik";
import { DomainError } from "../domain/errors.ts";

/** Returns whether a batch failed because of its content, so that a part of it may succeed. */
export const isContentError = (error: unknown): boolean =>
  error instanceof DomainError ||
  error instanceof IntegrityConstraintViolationError ||
  // Class 22 of SQLSTATE: data exceptions, such as a sum that exceeds the range of its type.
  (error instanceof SlonikError &&
    typeof error.cause === "object" &&
    error.cause !== null &&
    "code" in error.cause &&
    String(error.cause.code).startsWith("22"));
