import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { findMeterEvent } from "../meterEvents.sql.ts";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import { lockStream } from "../streams.sql.ts";
import { DomainError } from "../../../runtime/errors.rules.ts";

/** @throws DomainError record_not_found */
export const getMeterEvent = async (
  db: CommonQueryMethods,
  id: bigint,
): Promise<StoredMeterEvent> => {
  const event = await findMeterEvent(db, id);
  if (!event) {
    throw new DomainError(
      "record_not_found",
      `meter event ${id} not found; see \`impact usage list\``,
    );
  }
  return event;
};

/**
 * Locks the stream of a meter event until the transaction ends, and returns the event as it is then.
 * @throws DomainError record_not_found
 */
export const lockMeterEvent = async (
  transaction: DatabaseTransactionConnection,
  id: bigint,
): Promise<StoredMeterEvent> => {
  await lockStream(transaction, await getMeterEvent(transaction, id));
  return getMeterEvent(transaction, id);
};
