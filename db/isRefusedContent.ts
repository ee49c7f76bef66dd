import { IntegrityConstraintViolationError, SlonikError } from "slonik";
import { DomainError } from "../domain/errors.ts";

/** Whether the database refused something in a batch itself, so that a smaller part of it may pass. */
export const isRefusedContent = (error: unknown): boolean =>
  error instanceof DomainError ||
  error instanceof IntegrityConstraintViolationError ||
  // Class 22 of SQLSTATE: data exceptions, such as a sum that leaves the range of its type.
  (error instanceof SlonikError &&
    typeof error.cause === "object" &&
    error.cause !== null &&
    "code" in error.cause &&
    String(error.cause.code).startsWith("22"));
