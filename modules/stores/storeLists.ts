import type { CommonQueryMethods } from "slonik";
import type { z } from "zod";
import type { AccountMode, Kind } from "../records/owner.rules.ts";
import { listBalanceEntries } from "./balances.sql.ts";
import type { ImpactFilter } from "./customers.rules.ts";
import { balanceEntryJson, donationRecordJson, impactRecordJson } from "./storeRecords.rules.ts";
import { listStoreRecords } from "./storeRecords.sql.ts";
import { readWholeList } from "../records/readWholeList.ts";
import type { ListPart } from "../records/readWholeList.ts";

const defineList = <Json extends z.ZodObject>(
  json: Json,
  /** Returns what the page after a row starts with. */
  cursorOf: (row: z.output<Json>) => string,
  list: (
    db: CommonQueryMethods,
    owner: AccountMode,
    filter: ImpactFilter,
    part: ListPart<string>,
  ) => Promise<readonly z.output<Json>[]>,
) => ({
  json,
  columns: Object.keys(json.shape),
  cursorOf,
  list,
  /** Yields all rows, or those that follow a cursor, in pages. No connection is held between two pages. */
  readAll: (
    db: CommonQueryMethods,
    owner: AccountMode,
    filter: ImpactFilter,
    start: string | null = null,
  ) => readWholeList((part) => list(db, owner, filter, part), cursorOf, { start }),
});

export type StoreList<Json extends z.ZodObject> = ReturnType<typeof defineList<Json>>;

const registrations = (kind: Kind) =>
  defineList(
    impactRecordJson,
    ({ created_at }) => created_at,
    (db, owner, filter, part) =>
      listStoreRecords(db, "registration", { ...owner, kind }, filter, part),
  );

export const STORE_LISTS = {
  trees: registrations("tree"),
  bottles: registrations("bottle"),
  donations: defineList(
    donationRecordJson,
    ({ created_at }) => created_at,
    (db, owner, filter, part) => listStoreRecords(db, "donation", owner, filter, part),
  ),
  /** The ledger, which has no filters. Test keys spend nothing. */
  balance: defineList(
    balanceEntryJson,
    ({ id }) => id,
    async (db, { accountId, mode }, _filter, part) =>
      mode === "live" ? listBalanceEntries(db, accountId, part) : [],
  ),
};
