import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { listMeterEventsById, lockMeterEvents } from "../meterEvents.sql.ts";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import { namedEvents } from "../meterEvents.rules.ts";
import { lockStreams } from "../streams.sql.ts";
import { DomainError } from "../../../runtime/errors.rules.ts";
import { findDifference } from "./usageDifferences.sql.ts";
import type { UsageDifference } from "./usageDifferences.sql.ts";

export const itemNotFound = (names: string): DomainError =>
  new DomainError("record_not_found", `${names} not found; see \`impact usage list\``);

/** @throws DomainError record_not_found */
export const getDifference = async (
  db: CommonQueryMethods,
  id: bigint,
): Promise<UsageDifference> => {
  const difference = await findDifference(db, id);
  if (!difference) {
    throw itemNotFound(`D${id}`);
  }
  return difference;
};

/** @throws DomainError record_not_found if one of them does not exist */
export const getMeterEvents = async (
  db: CommonQueryMethods,
  ids: readonly bigint[],
): Promise<readonly StoredMeterEvent[]> => {
  const events = await listMeterEventsById(db, ids);
  const found = new Set(events.map(({ id }) => id));
  const missing = ids.filter((id) => !found.has(id));
  if (missing.length > 0) {
    throw itemNotFound(namedEvents(missing));
  }
  return events;
};

/** @throws DomainError record_not_found */
export const getMeterEvent = async (
  db: CommonQueryMethods,
  id: bigint,
): Promise<StoredMeterEvent> => {
  const [event] = await getMeterEvents(db, [id]);
  if (!event) {
    throw itemNotFound(`E${id}`);
  }
  return event;
};

/**
 * Locks the stream of a meter event and the event until the transaction ends, and returns the event as it is then.
 * @throws DomainError record_not_found
 */
export const lockMeterEvent = async (
  transaction: DatabaseTransactionConnection,
  id: bigint,
): Promise<StoredMeterEvent> => {
  await lockStreams(transaction, await getMeterEvents(transaction, [id]));
  const [event] = await lockMeterEvents(transaction, [id]);
  if (!event) {
    throw itemNotFound(`E${id}`);
  }
  return event;
};
