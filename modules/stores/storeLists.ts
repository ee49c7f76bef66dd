import type { CommonQueryMethods } from "slonik";
import type { z } from "zod";
import type { ListPosition, PositionedRow } from "../records/listPositions.sql.ts";
import type { AccountMode, Kind } from "../records/owner.rules.ts";
import { readWholeList } from "../records/readWholeList.ts";
import type { ListPart } from "../records/readWholeList.ts";
import { presentPages } from "../../runtime/presentPages.ts";
import type { ImpactFilter } from "./customers.rules.ts";
import {
  donationRecordJson,
  impactRecordJson,
  presentDonationRecord,
  presentImpactRecord,
} from "./presentRecords.rules.ts";
import { listStoreDonations } from "./storeDonations.sql.ts";
import { listStoreRegistrations } from "./storeRegistrations.sql.ts";

const defineList = <Row extends PositionedRow, Json extends z.ZodObject>(
  json: Json,
  present: (row: Row) => z.output<Json>,
  list: (
    db: CommonQueryMethods,
    owner: AccountMode,
    filter: ImpactFilter,
    part: ListPart,
  ) => Promise<readonly Row[]>,
) => ({
  json,
  columns: Object.keys(json.shape),
  present,
  list,
  /** Yields the JSON of all records, or of those that follow a position, in pages. */
  readAll: (
    db: CommonQueryMethods,
    owner: AccountMode,
    filter: ImpactFilter,
    start: ListPosition | null = null,
  ) =>
    presentPages(
      readWholeList((part) => list(db, owner, filter, part), { start }),
      present,
    ),
});

const registrations = (kind: Kind) =>
  defineList(impactRecordJson, presentImpactRecord, (db, owner, filter, part) =>
    listStoreRegistrations(db, { ...owner, kind }, filter, part),
  );

/** The lists of a store's records, newest first. */
export const STORE_LISTS = {
  trees: registrations("tree"),
  bottles: registrations("bottle"),
  donations: defineList(donationRecordJson, presentDonationRecord, listStoreDonations),
};

export type StoreList<Row extends PositionedRow, Json extends z.ZodObject> = ReturnType<
  typeof defineList<Row, Json>
>;
