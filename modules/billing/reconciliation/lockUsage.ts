import type { DatabaseTransactionConnection } from "slonik";
import { namesOf } from "../meterEvents.rules.ts";
import { listMeterEventsById, lockMeterEvents } from "../meterEvents.sql.ts";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import { lockStreams } from "../streams.sql.ts";
import { DomainError } from "../../../runtime/errors.rules.ts";

export const usageNotFound = (ids: readonly bigint[]): DomainError =>
  new DomainError(
    "record_not_found",
    `${namesOf(ids.map((id) => ({ id })))} not found; see \`impact usage list\``,
  );

/**
 * Locks events and their streams until the transaction ends.
 * @throws DomainError record_not_found if one of them does not exist
 */
export const lockUsage = async (
  transaction: DatabaseTransactionConnection,
  ids: readonly bigint[],
): Promise<readonly StoredMeterEvent[]> => {
  await lockStreams(transaction, await listMeterEventsById(transaction, ids));
  const events = await lockMeterEvents(transaction, ids);
  const missing = ids.filter((id) => !events.some((event) => event.id === id));
  if (missing.length > 0) {
    throw usageNotFound(missing);
  }
  return events;
};
