import { DomainError, OutageError } from "../../../domain/errors.ts";
import type { WriteInFlight, WritesInFlight } from "./createWritesInFlight.ts";

/** A write of a client, and how to find the result of the first one if this one repeats it. */
export type WriteAttempt<Result> = {
  readonly idempotencyKey: string | null;
  readonly write: () => Promise<Result>;
  readonly findOriginal: () => Promise<Result | null>;
};

/** A full queue is no time for queries, and its error asks for another retry. */
const isFinal = (error: unknown): boolean =>
  error instanceof OutageError || (error instanceof DomainError && error.code !== "queue_full");

/** Runs a write. If it fails, returns what an earlier one with its key has recorded meanwhile. */
export const writeOrFindOriginal = async <Result>(
  inFlight: WritesInFlight,
  own: WriteInFlight,
  { idempotencyKey, write, findOriginal }: WriteAttempt<Result>,
): Promise<Result> => {
  try {
    return await write();
  } catch (error) {
    if (idempotencyKey === null || !isFinal(error)) {
      throw error;
    }
    await inFlight.awaitEarlier(own);
    const original = await findOriginal();
    if (original === null) {
      throw error;
    }
    return original;
  }
};
