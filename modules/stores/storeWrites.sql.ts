import type { DatabaseTransactionConnection } from "slonik";
import { asTotalError, totalAdditions, totalSubtractions } from "../registrations/totals.sql.ts";
import { nothing, sql } from "../../db/sql.ts";
import { balanceUpdates, entryInserts } from "./balances.sql.ts";
import type { NewBalance, NewBalanceEntry } from "./balances.sql.ts";
import { responseInserts } from "./idempotentResponses.sql.ts";
import type { NewResponse } from "./idempotentResponses.sql.ts";
import { donationInserts } from "./storeDonations.sql.ts";
import type { NewStoreDonation } from "./storeDonations.sql.ts";
import { registrationInserts, reversalInserts } from "./storeRegistrations.sql.ts";
import type { NewReversal, StoreRegistration } from "./storeRegistrations.sql.ts";
import { COUNT_FIELDS } from "./storeWrites.rules.ts";

/** What writes of stores record in common. */
type RecordedWrites = {
  readonly registrations: readonly StoreRegistration[];
  readonly donations: readonly NewStoreDonation[];
  /** Of other stores than the registrations. */
  readonly reversals: readonly NewReversal[];
  /** In the order of the writes. */
  readonly entries: readonly NewBalanceEntry[];
  /** One for each store. */
  readonly balances: readonly NewBalance[];
  readonly responses: readonly NewResponse[];
};

/**
 * Records writes of stores whose balances are locked, in one statement: registrations, donations and reversals with
 * their totals, balance entries, balances and responses.
 * @throws DomainError request_invalid if a total would exceed a safe integer
 */
export const recordStoreWrites = async (
  transaction: DatabaseTransactionConnection,
  { registrations, donations, reversals, entries, balances, responses }: RecordedWrites,
): Promise<void> => {
  // What there is nothing of is left out, because PostgreSQL opens the indexes of a table even to insert no row.
  const parts = [
    {
      name: "registrations",
      rows: registrations,
      query: () =>
        sql.fragment`${registrationInserts(registrations)}, ${totalAdditions(registrations)}`,
    },
    { name: "donations", rows: donations, query: () => donationInserts(donations) },
    {
      name: "reversals",
      rows: reversals,
      query: () => sql.fragment`${reversalInserts(reversals)}, ${totalSubtractions(reversals)}`,
    },
    { name: "entries", rows: entries, query: () => entryInserts(entries) },
    { name: "responses", rows: responses, query: () => responseInserts(responses) },
    { name: "balances", rows: balances, query: () => balanceUpdates(balances) },
  ].filter(({ rows }) => rows.length > 0);
  const name = `record_store_${parts.map((part) => part.name).join("_")}`;
  const queries = sql.join(
    parts.map(({ query }) => query()),
    sql.fragment`, `,
  );
  try {
    await transaction.query(sql.prepared(name, nothing)`WITH ${queries} SELECT`);
  } catch (error) {
    const [first] = registrations;
    // A failed batch is divided until one write is left, so the first one is the cause.
    const cause = first
      ? asTotalError(error, "impact_total_safe", COUNT_FIELDS[first.kind])
      : asTotalError(error, "donor_total_safe", "amount_cents");
    throw cause;
  }
};
