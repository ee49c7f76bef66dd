import type { CommonQueryMethods, DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { totalAdditions as donationTotalAdditions } from "../charities/donationTotals.sql.ts";
import { joinedOrders, treeOrderId } from "../planting/nextOrders.sql.ts";
import { keyHash, scopeOfRow } from "../records/idempotencyKeys.sql.ts";
import { isImported } from "../records/ownedRecords.sql.ts";
import { asTotalError, sumsOf, totalAdditions } from "../registrations/totals.sql.ts";
import { columnsOf, jsonRows } from "../../db/jsonRows.ts";
import { nothing, safeInteger, sql } from "../../db/sql.ts";
import type { BalanceEntryKind } from "./stores.rules.ts";
import { COUNT_FIELDS, entryOf, findReplay, keyOf } from "./storeWrites.rules.ts";
import type {
  AcceptedWrite,
  NewBalanceEntry,
  StoredResponse,
  StoreResponse,
  StoreWrite,
} from "./storeWrites.rules.ts";

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

/** Rows of a table, by the names of its columns in camel case. */
type Rows<Columns> = readonly Readonly<Record<keyof Columns, unknown>>[];

/** Registrations are prepaid, so they have no usage facts. */
const registrationInserts = (
  registrations: Rows<typeof REGISTRATION>,
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

const donationInserts = (donations: Rows<typeof DONATION>): FragmentSqlToken => sql.fragment`
  given_donation AS MATERIALIZED (${jsonRows(DONATION, donations)}),
  inserted_donation AS (
    INSERT INTO donation (${columnsOf(DONATION)}, confirmed_name)
    SELECT ${columnsOf(DONATION)}, charity_name
    FROM given_donation
  ),
  ${donationTotalAdditions(sql.fragment`given_donation`)}
`;

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

const KEY = { accountId: "uuid", mode: "text", operation: "text", key: "text" } as const;

const RESPONSE = {
  ...KEY,
  requestHash: "text",
  responseBody: "text",
  recordId: "uuid",
  createdAt: "timestamptz",
} as const;

const responseInserts = (responses: Rows<typeof RESPONSE>): FragmentSqlToken => sql.fragment`
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

const BALANCE = { id: "uuid", balanceCents: "int8", recordedAt: "timestamptz" } as const;

/** A balance that rises is not depleted any more. */
const balanceUpdates = (balances: Rows<typeof BALANCE>): FragmentSqlToken => sql.fragment`
  updated_store AS (
    UPDATE store
    SET
      balance_cents = given.balance_cents,
      depleted_at = CASE WHEN given.balance_cents <= store.balance_cents THEN store.depleted_at END,
      last_record_at = greatest(last_record_at, given.recorded_at)
    FROM (${jsonRows(BALANCE, balances)}) AS given
    WHERE store.account_id = given.id
  )
`;

/** The entries of payments and corrections, which have no times among those of the store's records. */
const OPERATOR_KINDS: ReadonlySet<BalanceEntryKind> = new Set(["topup", "adjustment"] as const);

/**
 * Records writes of stores whose balances are locked, in one statement: registrations and donations with their totals,
 * balance entries in their order, balances and responses.
 * @throws DomainError request_invalid if a total would exceed a safe integer
 */
export const recordStoreWrites = async (
  transaction: DatabaseTransactionConnection,
  {
    accepted = [],
    entries: others = [],
  }: {
    readonly accepted?: readonly AcceptedWrite[];
    /** Of an operator. */
    readonly entries?: readonly NewBalanceEntry[];
  },
): Promise<void> => {
  const registrations = accepted.flatMap(({ write, ...made }) =>
    "count" in write ? [{ ...write, ...made, id: write.recordId }] : [],
  );
  const donations = accepted.flatMap(({ write, ...made }) => {
    if (!("charity" in write)) {
      return [];
    }
    const { charity, provider: charityProvider } = write.charity;
    const { ein, nonprofitId, name: charityName } = charity;
    const { recordId: id, amountCents } = write;
    const ids = { id, ein, nonprofitId, charityProvider, charityName };
    return [{ ...write, ...made, ...ids, amountCents }];
  });
  const all = [...accepted.map(entryOf), ...others];
  const entries = all.filter(({ amountCents }) => amountCents !== 0);
  const lastTimes = new Map([
    ...accepted.map(({ write, createdAt }) => [write.accountId, createdAt] as const),
    ...others
      .filter(({ kind }) => !OPERATOR_KINDS.has(kind))
      .map(({ accountId, createdAt }) => [accountId, createdAt] as const),
  ]);
  const balances = new Map(
    all.map(({ accountId: id, balanceCents }) => [
      id,
      { id, balanceCents, recordedAt: lastTimes.get(id) ?? null },
    ]),
  );
  // An erasure finds a response by the time of its record or refund.
  const responses = accepted.flatMap(({ write, createdAt }) =>
    write.idempotency === null ? [] : [{ ...write, ...write.idempotency, createdAt }],
  );
  // What there is nothing of is left out, because PostgreSQL opens the indexes of a table even to insert no row.
  const parts = Object.entries({
    registrations: registrations.length > 0 && registrationInserts(registrations),
    donations: donations.length > 0 && donationInserts(donations),
    entries: entries.length > 0 && entryInserts(entries),
    responses: responses.length > 0 && responseInserts(responses),
    balances: balances.size > 0 && balanceUpdates([...balances.values()]),
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

const responseRow = z.strictObject({
  place: safeInteger,
  /** SHA-256 of the request in hexadecimal digits. Null if it was erased. */
  requestHash: z.string().nullable(),
  /** Null if it was erased. */
  responseBody: z.string().nullable(),
  /** The registration or donation that the write recorded. Null if it recorded none, or if it was imported. */
  recordId: z.uuid().nullable(),
});

/** Returns the responses that are stored for the keys of writes, by `keyOf`. */
export const readResponses = async (
  db: CommonQueryMethods,
  writes: readonly StoreWrite[],
): Promise<Map<string, StoredResponse>> => {
  const wanted = writes.flatMap((write) =>
    write.idempotency === null ? [] : [{ ...write, key: write.idempotency.key }],
  );
  if (wanted.length === 0) {
    return new Map();
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
export const findEarlierResponse = async (
  db: CommonQueryMethods,
  write: StoreWrite,
): Promise<StoreResponse | null> =>
  findReplay(write, { responses: await readResponses(db, [write]) });
