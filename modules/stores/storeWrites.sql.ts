import { UniqueIntegrityConstraintViolationError } from "slonik";
import type { DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import type { ConfirmedCharity } from "../charities/charities.rules.ts";
import { totalAdditions as donationTotalAdditions } from "../charities/donationTotals.sql.ts";
import { joinedOrders, treeOrderId } from "../planting/nextOrders.sql.ts";
import { keyHash, scopeOfRow } from "../records/idempotencyKeys.sql.ts";
import type { AccountMode, Owner } from "../records/owner.rules.ts";
import { asTotalError, sumsOf, totalAdditions } from "../registrations/totals.sql.ts";
import { columnsOf, jsonRows } from "../../db/jsonRows.ts";
import { nothing, sql } from "../../db/sql.ts";
import { setBalance } from "./balances.sql.ts";
import type { CustomerDetails, DonationCustomer } from "./customers.rules.ts";
import type { IdempotentResponse } from "./idempotentResponses.sql.ts";
import type { BalanceEntryKind } from "./stores.rules.ts";
import { COUNT_FIELDS } from "./storeWrites.rules.ts";

/** Times are in microseconds. */
type Timed = { readonly createdAt: string };

type NewStoreRegistration = Owner &
  CustomerDetails &
  Timed & { readonly id: string; readonly count: number; readonly unitPriceCents: number };

type NewStoreDonation = AccountMode &
  DonationCustomer &
  Timed & {
    readonly id: string;
    readonly amountCents: number;
    readonly charity: ConfirmedCharity;
  };

export type NewBalanceEntry = Timed & {
  readonly accountId: string;
  readonly kind: BalanceEntryKind;
  /** Negative for what was spent. */
  readonly amountCents: number;
  /** The balance after the entry. */
  readonly balanceCents: number;
  readonly quantity?: number;
  readonly registrationId?: string;
  readonly donationId?: string;
  readonly reference?: string | null;
  /** Empty for none, and for a refund. */
  readonly note: string;
};

/** A response to store, with the time of its record or refund, by which an erasure finds it. */
type NewResponse = IdempotentResponse & Timed;

/** What a store's balance is after its writes. */
type NewBalance = {
  readonly accountId: string;
  readonly balanceCents: number;
  /** In microseconds since 1970. */
  readonly lastRecordUs: number;
};

/** What writes of stores record in common. */
type RecordedWrites = {
  readonly registrations?: readonly NewStoreRegistration[];
  readonly donations?: readonly NewStoreDonation[];
  /** In the order of the writes. */
  readonly entries?: readonly NewBalanceEntry[];
  readonly responses?: readonly NewResponse[];
  /** One for each store. */
  readonly balances?: readonly NewBalance[];
};

const CUSTOMER = {
  customerName: "text",
  customerEmail: "text",
  customerId: "text",
  orderId: "text",
} as const;

const REGISTRATION = {
  id: "uuid",
  accountId: "uuid",
  mode: "text",
  kind: "text",
  count: "int8",
  createdAt: "timestamptz",
  ...CUSTOMER,
  notes: "text",
  unitPriceCents: "int8",
} as const;

/** Registrations are prepaid, so they have no usage facts. */
const registrationInserts = (
  registrations: readonly NewStoreRegistration[],
): FragmentSqlToken => sql.fragment`
  given_registration AS MATERIALIZED (${jsonRows(REGISTRATION, registrations)}),
  ${joinedOrders("given_registration")},
  inserted_registration AS (
    INSERT INTO registration (${columnsOf(REGISTRATION)}, planting_order_id, tree_order_id)
    SELECT ${columnsOf(REGISTRATION)}, planting_order_id, ${treeOrderId}
    FROM given_registration
    LEFT JOIN joined_order USING (account_id, mode, kind)
  ),
  ${totalAdditions(sumsOf(sql.fragment`given_registration`))}
`;

const DONATION = {
  id: "uuid",
  accountId: "uuid",
  mode: "text",
  amountCents: "int8",
  ein: "text",
  nonprofitId: "text",
  charityProvider: "text",
  charityName: "text",
  createdAt: "timestamptz",
  ...CUSTOMER,
} as const;

const donationInserts = (donations: readonly NewStoreDonation[]): FragmentSqlToken => {
  const rows = donations.map(({ charity: { charity, provider }, ...donation }) => ({
    ...donation,
    ein: charity.ein,
    nonprofitId: charity.nonprofitId,
    charityProvider: provider,
    charityName: charity.name,
  }));
  return sql.fragment`
    given_donation AS MATERIALIZED (${jsonRows(DONATION, rows)}),
    inserted_donation AS (
      INSERT INTO donation (${columnsOf(DONATION)}, confirmed_name)
      SELECT ${columnsOf(DONATION)}, charity_name
      FROM given_donation
    ),
    ${donationTotalAdditions(sql.fragment`given_donation`)}
  `;
};

const ENTRY = {
  accountId: "uuid",
  kind: "text",
  amountCents: "int8",
  balanceCents: "int8",
  quantity: "int8",
  registrationId: "uuid",
  donationId: "uuid",
  reference: "text",
  note: "text",
  createdAt: "timestamptz",
} as const;

const entryInserts = (entries: readonly NewBalanceEntry[]): FragmentSqlToken => {
  const absent = { quantity: null, registrationId: null, donationId: null, reference: null };
  return sql.fragment`
    inserted_entry AS (
      INSERT INTO balance_entry (${columnsOf(ENTRY)})
      SELECT ${columnsOf(ENTRY)}
      FROM (${jsonRows(
        ENTRY,
        entries.map((entry) => ({ ...absent, ...entry })),
      )}) AS given
      ORDER BY place
    )
  `;
};

const RESPONSE = {
  key: "text",
  accountId: "uuid",
  mode: "text",
  operation: "text",
  requestHash: "text",
  responseBody: "text",
  recordId: "uuid",
  createdAt: "timestamptz",
} as const;

const responseInserts = (responses: readonly NewResponse[]): FragmentSqlToken => sql.fragment`
  inserted_response AS (
    INSERT INTO idempotency_key (
      key_hash, account_id, mode, operation, request_hash, response_body, record_id, created_at
    )
    SELECT
      ${keyHash(scopeOfRow("given"), sql.identifier(["given", "key"]))}, account_id, mode, operation,
      decode(request_hash, 'hex'), response_body, record_id, created_at
    FROM (${jsonRows(RESPONSE, responses)}) AS given
  )
`;

const BALANCE = { accountId: "uuid", balanceCents: "int8", lastRecordUs: "int8" } as const;

const balanceUpdates = (balances: readonly NewBalance[]): FragmentSqlToken => sql.fragment`
  updated_store AS (
    UPDATE store
    SET
      ${setBalance(sql.fragment`given.balance_cents`)},
      last_record_at = greatest(last_record_at, timestamptz 'epoch' + given.last_record_us * interval '1 microsecond')
    FROM (${jsonRows(BALANCE, balances)}) AS given
    WHERE store.account_id = given.account_id
  )
`;

/** Returns whether a response was stored for a key of the writes meanwhile. */
export const isKeyConflict = (error: unknown): boolean =>
  error instanceof UniqueIntegrityConstraintViolationError &&
  error.constraint === "idempotency_key_pkey";

/**
 * Records writes of stores whose balances are locked, in one statement: registrations and donations with their totals,
 * balance entries, balances and responses.
 * @throws DomainError request_invalid if a total would exceed a safe integer
 */
export const recordStoreWrites = async (
  transaction: DatabaseTransactionConnection,
  {
    registrations = [],
    donations = [],
    entries = [],
    responses = [],
    balances = [],
  }: RecordedWrites,
): Promise<void> => {
  // What there is nothing of is left out, because PostgreSQL opens the indexes of a table even to insert no row.
  const parts = Object.entries({
    registrations: registrations.length > 0 && registrationInserts(registrations),
    donations: donations.length > 0 && donationInserts(donations),
    entries: entries.length > 0 && entryInserts(entries),
    responses: responses.length > 0 && responseInserts(responses),
    balances: balances.length > 0 && balanceUpdates(balances),
  }).flatMap(([name, query]) => (query === false ? [] : [{ name, query }]));
  if (parts.length === 0) {
    return;
  }
  const name = `record_store_${parts.map((part) => part.name).join("_")}`;
  const queries = sql.join(
    parts.map(({ query }) => query),
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
