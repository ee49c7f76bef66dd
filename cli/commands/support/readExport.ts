import type { DatabasePool } from "slonik";
import type { BulkPace } from "../../../db/bulkWork/createBulkPace.ts";
import { listStoreRegistrations } from "../../../db/stores/storeRegistrations.ts";
import { listStoreDonations } from "../../../db/stores/storeDonations.ts";
import { KINDS } from "../../../domain/accounts/accounts.ts";
import type { AccountMode, Kind } from "../../../domain/accounts/accounts.ts";
import { presentUsage, USAGE_COLUMNS } from "../../../domain/billing/presentUsage.ts";
import { DONATION_COLUMNS, presentDonation } from "../../../domain/charities/presentDonation.ts";
import {
  presentRegistration,
  REGISTRATION_COLUMNS,
} from "../../../domain/registrations/presentRegistration.ts";
import {
  BALANCE_COLUMNS,
  presentBalanceEntry,
} from "../../../domain/stores/presentBalanceEntry.ts";
import {
  DONATION_RECORD_COLUMNS,
  presentDonationRecord,
} from "../../../domain/stores/presentDonationRecord.ts";
import {
  IMPACT_RECORD_COLUMNS,
  presentImpactRecord,
} from "../../../domain/stores/presentImpactRecord.ts";
import { presentPages, rowsOf } from "../../../program/exports/presentPages.ts";
import { listAllDonations } from "../../../services/charities/donations/listAllDonations.ts";
import { listRegistrations } from "../../../services/registrations/listRegistrations.ts";
import { listUsageReports } from "../../../services/registrations/readUsageReports.ts";
import { readWholeList } from "../../../services/readWholeList.ts";
import { readWholeLedger } from "../../../services/stores/records/readWholeLedger.ts";
import type { BillingContext } from "../../../services/billing/context.ts";
import type { ListContext } from "../../../services/registrations/context.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";

export const LISTS = [
  ...KINDS.map((kind) => `${kind}s` as const),
  "donations",
  "usage",
  "balance",
] as const;
export type List = (typeof LISTS)[number];

export type Rows = {
  readonly columns: readonly string[];
  readonly pages: AsyncIterable<Iterable<object>>;
};

type Range = { readonly from?: Date; readonly until?: Date };

const KIND_OF_LIST: Readonly<Record<`${Kind}s`, Kind>> = { trees: "tree", bottles: "bottle" };

const notListed = (list: List, owner: string): CommandError =>
  new CommandError(EXIT.usage, `${owner} has no list of ${list}. See impact export --help.`);

export const readOfOrganization = (
  deps: ListContext & BillingContext & { readonly pace: BulkPace },
  owner: AccountMode,
  list: List,
  range: Range,
): Rows => {
  switch (list) {
    case "trees":
    case "bottles":
      return {
        columns: REGISTRATION_COLUMNS,
        pages: presentPages(
          rowsOf(
            listRegistrations(deps, { ...owner, kind: KIND_OF_LIST[list] }, range, {
              startingAfter: null,
              limit: null,
            }).pages,
          ),
          presentRegistration,
        ),
      };
    case "donations":
      return {
        columns: DONATION_COLUMNS,
        pages: presentPages(listAllDonations(deps.db, owner, range), presentDonation),
      };
    case "usage":
      return {
        columns: USAGE_COLUMNS,
        pages: presentPages(
          rowsOf(
            listUsageReports(deps, owner, {
              kinds: KINDS,
              state: null,
              startingAfter: null,
              limit: null,
              from: range.from ?? null,
              until: range.until ?? null,
            }),
          ),
          presentUsage,
        ),
      };
    case "balance":
      throw notListed(list, "an organization");
  }
};

export const readOfStore = (
  db: DatabasePool,
  owner: AccountMode,
  list: List,
  range: Range,
): Rows => {
  switch (list) {
    case "trees":
    case "bottles":
      return {
        columns: IMPACT_RECORD_COLUMNS,
        pages: presentPages(
          readWholeList((part) =>
            listStoreRegistrations(db, { ...owner, kind: KIND_OF_LIST[list] }, range, part),
          ),
          presentImpactRecord,
        ),
      };
    case "donations":
      return {
        columns: DONATION_RECORD_COLUMNS,
        pages: presentPages(
          readWholeList((part) => listStoreDonations(db, owner, range, part)),
          presentDonationRecord,
        ),
      };
    case "balance":
      if (range.from !== undefined || range.until !== undefined || owner.mode === "test") {
        throw new CommandError(
          EXIT.usage,
          "The ledger is exported whole, and only in live mode: omit --since, --until and --mode.",
        );
      }
      return {
        columns: BALANCE_COLUMNS,
        pages: presentPages(readWholeLedger(db, owner.accountId, null), presentBalanceEntry),
      };
    case "usage":
      throw notListed(list, "a store");
  }
};
