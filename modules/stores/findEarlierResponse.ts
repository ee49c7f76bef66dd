import type { CommonQueryMethods } from "slonik";
import { listIdempotentResponses } from "./idempotentResponses.sql.ts";
import { replayResponse } from "./storeWrites.rules.ts";
import type { StoreResponse, StoreWrite } from "./storeWrites.rules.ts";

/**
 * Returns the stored response to an earlier request with the write's key, or null.
 * @throws DomainError request_invalid if the key was used for another request
 */
export const findEarlierResponse = async (
  db: CommonQueryMethods,
  write: StoreWrite,
): Promise<StoreResponse | null> => {
  if (write.idempotency === null) {
    return null;
  }
  const [stored] = await listIdempotentResponses(db, [{ ...write, key: write.idempotency.key }]);
  return stored ? replayResponse(write, stored) : null;
};
