import type { CommonQueryMethods } from "slonik";
import { readWholeList } from "../records/readWholeList.ts";
import type { ListPosition } from "../records/listPositions.sql.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import { listDonations, listDonationsOf } from "./donations.sql.ts";
import type { ListedDonation } from "./donations.sql.ts";
import type { Donation, DonationFilter } from "./donations.rules.ts";

/** Of a page. Each donation may have 64 KiB of metadata, and a slow client holds a page in memory. */
const ROWS = 100;

/** Yields all of an owner's donations, newest first, in pages. No connection is held between two pages. */
export const listAllDonations = (
  db: CommonQueryMethods,
  owner: AccountMode,
  filter: DonationFilter,
): AsyncGenerator<readonly ListedDonation[], void, void> =>
  readWholeList<ListedDonation, ListPosition>(
    (part) => listDonations(db, owner, filter, part),
    (last) => last,
    { rows: ROWS },
  );

/** A donation that a write has recorded or found. */
export type WrittenDonation = {
  /** Of a replay by its key, that of another donation. */
  readonly id: string;
  readonly key: string | null;
  /** Null if it has to be read. Each of a thousand may have 64 KiB of metadata. */
  readonly donation: Donation | null;
};

/** Completes results of writes, a few at a time, with the donations that they lack. */
export const readDonations = async <Done extends WrittenDonation>(
  { db }: { readonly db: CommonQueryMethods },
  { accountId, mode }: AccountMode,
  done: readonly Done[],
): Promise<readonly (Done & { readonly donation: Donation })[]> => {
  const unread = done.filter(({ donation }) => donation === null);
  const ids = unread.flatMap(({ id, key }) => (key === null ? id : []));
  const keys = unread.flatMap(({ key }) => key ?? []);
  const found =
    unread.length === 0 ? [] : await listDonationsOf(db, { accountId, mode }, { ids, keys });
  return done.map((result) => {
    const donation =
      result.donation ??
      found.find(({ id, idempotencyKey }) =>
        result.key === null ? id === result.id : idempotencyKey === result.key,
      );
    if (!donation) {
      throw new Error(`Donation ${result.id} was deleted in the meantime.`);
    }
    return { ...result, donation };
  });
};
