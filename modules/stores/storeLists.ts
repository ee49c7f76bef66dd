import type { CommonQueryMethods } from "slonik";
import type { z } from "zod";
import type { AccountMode, Kind } from "../records/owner.rules.ts";
import { listBalanceEntries } from "./balances.sql.ts";
import type { ImpactFilter } from "./customers.rules.ts";
import { balanceEntryJson, donationRecordJson, impactRecordJson } from "./storeRecords.rules.ts";
import { listStoreRecords } from "./storeRecords.sql.ts";
import type { ListPart } from "./storeRecords.sql.ts";

/** How many rows of a whole list one query reads. */
const PAGE_ROWS = 500;

const defineList = <Json extends z.ZodObject>(
  json: Json,
  /** Returns what the page after a row starts with. */
  cursorOf: (row: z.output<Json>) => string,
  list: (
    db: CommonQueryMethods,
    owner: AccountMode,
    filter: ImpactFilter,
    part: ListPart,
  ) => Promise<readonly z.output<Json>[]>,
) => ({
  json,
  columns: Object.keys(json.shape),
  cursorOf,
  list,
  /** Yields all rows, or those that follow a cursor, in pages. No connection is held between two pages. */
  async *readAll(
    db: CommonQueryMethods,
    owner: AccountMode,
    filter: ImpactFilter,
    start: string | null = null,
  ): AsyncGenerator<readonly z.output<Json>[], void, void> {
    let after = start;
    let page: readonly z.output<Json>[];
    do {
      page = await list(db, owner, filter, { after, limit: PAGE_ROWS });
      yield page;
      const last = page.at(-1);
      after = last === undefined ? null : cursorOf(last);
    } while (page.length === PAGE_ROWS);
  },
});

export type StoreList<Json extends z.ZodObject> = ReturnType<typeof defineList<Json>>;

const registrations = (kind: Kind) =>
  defineList(
    impactRecordJson,
    ({ created_at }) => created_at,
    (db, owner, filter, part) =>
      listStoreRecords(db, "registration", { ...owner, kind }, filter, part),
  );

/** The lists of a store, newest first. */
export const STORE_LISTS = {
  trees: registrations("tree"),
  bottles: registrations("bottle"),
  donations: defineList(
    donationRecordJson,
    ({ created_at }) => created_at,
    (db, owner, filter, part) => listStoreRecords(db, "donation", owner, filter, part),
  ),
  /** The ledger, which has no filters. */
  balance: defineList(
    balanceEntryJson,
    ({ id }) => id,
    (db, { accountId }, _filter, part) => listBalanceEntries(db, accountId, part),
  ),
};
