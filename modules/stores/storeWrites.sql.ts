import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { totalAdditions as donationTotalAdditions } from "../charities/donationTotals.sql.ts";
import { joinedOrders, treeOrderId } from "../planting/nextOrders.sql.ts";
import { keyHash, scopeOfRow } from "../records/idempotencyKeys.sql.ts";
import { isImported } from "../records/ownedRecords.sql.ts";
import { KINDS } from "../records/owner.rules.ts";
import { asTotalError, sumsOf, totalAdditions } from "../registrations/totals.sql.ts";
import { jsonRows } from "../../db/jsonRows.ts";
import { nothing, safeInteger, sql } from "../../db/sql.ts";
import type { BalanceEntryKind } from "./stores.rules.ts";
import { COUNT_FIELDS, findReplay, isRefund, keyOf, storedResponse } from "./storeWrites.rules.ts";
import type { AcceptedWrite, StoredResponse, StoreWrite } from "./storeWrites.rules.ts";

/** What is recorded of a write: its record, its entry in the ledger, its response and the balance after it. */
const WRITTEN = {
  accountId: "uuid",
  mode: "text",
  kind: "text",
  amountCents: "int8",
  balanceCents: "int8",
  createdAt: "timestamptz",
  recordId: "uuid",
  count: "int8",
  unitPriceCents: "int8",
  donatedCents: "int8",
  ein: "text",
  nonprofitId: "text",
  charityProvider: "text",
  charityName: "text",
  customerName: "text",
  customerEmail: "text",
  customerId: "text",
  orderId: "text",
  notes: "text",
  quantity: "int8",
  reference: "text",
  note: "text",
  operation: "text",
  key: "text",
  requestHash: "text",
  responseBody: "text",
} as const;

const rowOf = ({ write, ...made }: AcceptedWrite) => ({
  ...write,
  ...write.idempotency,
  ...made,
  kind: isRefund(write) ? ("refund" as const) : write.kind,
  ...("charity" in write && {
    donatedCents: write.amountCents,
    ein: write.charity.charity.ein,
    nonprofitId: write.charity.charity.nonprofitId,
    charityProvider: write.charity.provider,
    charityName: write.charity.charity.name,
  }),
});

/** These conditions do not lower how many rows the planner expects, so it joins them by hashes. */
const isRegistration = sql.fragment`count IS NOT NULL`;
const isDonation = sql.fragment`donated_cents IS NOT NULL`;

/** Registrations are prepaid, so they have no usage facts. */
const registrationInserts = sql.fragment`
  ${joinedOrders("written")},
  inserted_registration AS (
    INSERT INTO registration (
      id, account_id, mode, kind, count, created_at, customer_name, customer_email, customer_id, order_id, notes,
      unit_price_cents, planting_order_id, tree_order_id
    )
    SELECT
      record_id, account_id, mode, kind, count, created_at, customer_name, customer_email, customer_id, order_id, notes,
      unit_price_cents, planting_order_id, ${treeOrderId}
    FROM written
    LEFT JOIN joined_order USING (account_id, mode, kind)
    WHERE ${isRegistration}
  ),
  ${totalAdditions(sumsOf(sql.fragment`(SELECT * FROM written WHERE ${isRegistration}) AS registered`))}
`;

const donationInserts = sql.fragment`
  inserted_donation AS (
    INSERT INTO donation (
      id, account_id, mode, amount_cents, ein, nonprofit_id, charity_provider, charity_name, confirmed_name, created_at,
      customer_name, customer_email, customer_id, order_id
    )
    SELECT
      record_id, account_id, mode, donated_cents, ein, nonprofit_id, charity_provider, charity_name, charity_name, created_at,
      customer_name, customer_email, customer_id, order_id
    FROM written
    WHERE ${isDonation}
  ),
  ${donationTotalAdditions(sql.fragment`(
    SELECT account_id, mode, donated_cents AS amount_cents FROM written WHERE ${isDonation}
  ) AS donated`)}
`;

const entryInserts = sql.fragment`
  inserted_entry AS (
    INSERT INTO balance_entry (
      account_id, kind, amount_cents, balance_cents, quantity, registration_id, donation_id, reference, note, created_at
    )
    SELECT
      account_id, kind, amount_cents, balance_cents, coalesce(count, quantity),
      CASE WHEN ${isRegistration} THEN record_id END, CASE WHEN ${isDonation} THEN record_id END, reference,
      coalesce(note, charity_name, ''), created_at
    FROM written
    WHERE amount_cents <> 0
    ORDER BY place
  )
`;

const responseInserts = sql.fragment`
  inserted_response AS (
    INSERT INTO idempotency_key (
      key_hash, account_id, mode, operation, request_hash, response_body, record_id, created_at
    )
    SELECT
      ${keyHash(scopeOfRow("written"), sql.identifier(["written", "key"]))}, account_id, mode, operation,
      decode(request_hash, 'hex'), response_body, record_id, created_at
    FROM written
    WHERE key IS NOT NULL
  )
`;

/**
 * A balance that rises is not depleted any more. The entries of payments and corrections, which have no operation, have no
 * times among those of the store's records.
 */
const balanceUpdates = sql.fragment`
  updated_store AS (
    UPDATE store
    SET
      balance_cents = latest.balance_cents,
      depleted_at = CASE WHEN latest.balance_cents <= store.balance_cents THEN store.depleted_at END,
      last_record_at = greatest(last_record_at, latest.recorded_at)
    FROM (
      SELECT DISTINCT ON (account_id)
        account_id,
        balance_cents,
        max(created_at) FILTER (WHERE operation IS NOT NULL OR kind = 'refund') OVER (PARTITION BY account_id) AS recorded_at
      FROM written
      ORDER BY account_id, place DESC
    ) AS latest
    WHERE store.account_id = latest.account_id
  )
`;

export type NewBalanceEntry = {
  readonly accountId: string;
  readonly kind: BalanceEntryKind;
  readonly amountCents: number;
  readonly balanceCents: number;
  readonly quantity?: number;
  readonly reference?: string | null;
  /** Empty for none, and for a refund. */
  readonly note: string;
  readonly createdAt: string;
};

/**
 * Records writes and entries of stores whose balances are locked, in one statement: registrations and donations with their
 * totals, balance entries in their order, balances and responses.
 * @throws DomainError request_invalid if a total would exceed a safe integer
 */
export const recordStoreWrites = async (
  transaction: DatabaseTransactionConnection,
  written: readonly (AcceptedWrite | NewBalanceEntry)[],
) => {
  const rows = written.map((each) => ("write" in each ? rowOf(each) : each));
  if (rows.length === 0) {
    return;
  }
  const [kind] = rows.flatMap((row) => KINDS.find((each) => each === row.kind) ?? []);
  // What there is nothing of is left out, because PostgreSQL opens the indexes of a table even to insert no row.
  const parts = [
    { name: "registrations", query: registrationInserts, isNeeded: kind !== undefined },
    {
      name: "donations",
      query: donationInserts,
      isNeeded: rows.some((row) => row.kind === "donation"),
    },
    { name: "entries", query: entryInserts, isNeeded: rows.some((row) => row.amountCents !== 0) },
    { name: "responses", query: responseInserts, isNeeded: rows.some((row) => "key" in row) },
    { name: "balances", query: balanceUpdates, isNeeded: true },
  ].filter(({ isNeeded }) => isNeeded);
  const queries = sql.join(
    parts.map(({ query }) => query),
    sql.fragment`, `,
  );
  try {
    await transaction.query(
      sql.prepared(
        `record_store_${parts.map(({ name }) => name).join("_")}`,
        nothing,
      )`WITH written AS MATERIALIZED (${jsonRows(WRITTEN, rows)}), ${queries} SELECT`,
    );
  } catch (error) {
    // A failed batch is divided until one write is left, so the first one is the cause.
    throw kind
      ? asTotalError(error, "impact_total_safe", COUNT_FIELDS[kind])
      : asTotalError(error, "donor_total_safe", "amount_cents");
  }
};

const KEY = { accountId: "uuid", mode: "text", operation: "text", key: "text" } as const;

const responseRow = storedResponse.extend({ place: safeInteger });

/** Returns the responses that are stored for the keys of writes, by `keyOf`. */
export const readResponses = async (
  db: CommonQueryMethods,
  writes: readonly StoreWrite[],
): Promise<Map<string, StoredResponse>> => {
  const wanted = writes.flatMap((write) =>
    write.idempotency === null ? [] : [{ ...write, key: write.idempotency.key }],
  );
  if (wanted.length === 0) {
    return new Map<string, never>();
  }
  const found = await db.any(sql.prepared("read_responses", responseRow)`
    SELECT
      wanted.place,
      encode(found.request_hash, 'hex') AS "requestHash",
      found.response_body AS "responseBody",
      -- Clients know an imported record by another id.
      CASE WHEN ${isImported(sql.fragment`found.record_id`)} THEN NULL ELSE found.record_id END AS "recordId"
    FROM (${jsonRows(KEY, wanted)}) AS wanted
    CROSS JOIN LATERAL (
      SELECT request_hash, response_body, record_id
      FROM idempotency_key
      WHERE key_hash = ${keyHash(scopeOfRow("wanted"), sql.identifier(["wanted", "key"]))}
      LIMIT 1
    ) AS found
  `);
  return new Map(
    found.flatMap(({ place, ...response }) => {
      const write = wanted[place - 1];
      return write ? [[keyOf(write) ?? "", response] as const] : [];
    }),
  );
};

/**
 * Returns the stored response to an earlier request with the write's key, or null.
 * @throws DomainError request_invalid if the key was used for another request
 */
export const findEarlierResponse = async (db: CommonQueryMethods, write: StoreWrite) =>
  findReplay(write, { responses: await readResponses(db, [write]) });
