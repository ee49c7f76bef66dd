import { ApplicationFailure } from "@temporalio/common";
import type { ErrorCode } from "../domain/errors.ts";
import { DomainError } from "../domain/errors.ts";

/** What no later attempt changes. Clocks go on and partners correct themselves, but nothing makes a record of an id. */
const HOPELESS: ReadonlySet<ErrorCode> = new Set(["record_not_found"]);

/** Tells Temporal of a refusal that stays one, so that it does not try again for ever; all else is tried again. */
export const endHopelessRetries = async <Result>(work: () => Promise<Result>): Promise<Result> => {
  try {
    return await work();
  } catch (error) {
    throw error instanceof DomainError && HOPELESS.has(error.code)
      ? ApplicationFailure.create({
          message: error.message,
          type: error.code,
          nonRetryable: true,
          cause: error,
        })
      : error;
  }
};
