import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { listMeterEventsById, lockMeterEvents } from "../meterEvents.sql.ts";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import { eventItems, namedItems } from "../meterEvents.rules.ts";
import type { UsageItem } from "../meterEvents.rules.ts";
import { lockStreams } from "../streams.sql.ts";
import { DomainError } from "../../../runtime/errors.rules.ts";
import { findDifference } from "./usageDifferences.sql.ts";
import type { UsageDifference } from "./usageDifferences.sql.ts";

export const itemNotFound = (items: readonly UsageItem[]): DomainError =>
  new DomainError("record_not_found", `${namedItems(items)} not found; see \`impact usage list\``);

/** @throws DomainError record_not_found */
export const getDifference = async (
  db: CommonQueryMethods,
  id: bigint,
): Promise<UsageDifference> => {
  const difference = await findDifference(db, id);
  if (!difference) {
    throw itemNotFound([{ letter: "D", id }]);
  }
  return difference;
};

type LockedItems = {
  readonly events: readonly StoredMeterEvent[];
  readonly differences: readonly UsageDifference[];
};

/**
 * Locks the streams of items, and the events among them, until the transaction ends.
 * @throws DomainError record_not_found if one of them does not exist
 */
export const lockItems = async (
  transaction: DatabaseTransactionConnection,
  items: readonly UsageItem[],
): Promise<LockedItems> => {
  const idsOf = (letter: UsageItem["letter"]): readonly bigint[] =>
    items.filter((item) => item.letter === letter).map(({ id }) => id);
  const ids = idsOf("E");
  const found = await listMeterEventsById(transaction, ids);
  const missing = ids.filter((id) => !found.some((event) => event.id === id));
  if (missing.length > 0) {
    throw itemNotFound(eventItems(missing));
  }
  const differences = await Promise.all(idsOf("D").map((id) => getDifference(transaction, id)));
  const ofDifferences = differences.map((each) => ({ ...each, mode: "live" as const }));
  await lockStreams(transaction, [...found, ...ofDifferences]);
  return { events: await lockMeterEvents(transaction, ids), differences };
};
