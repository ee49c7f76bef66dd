import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { AccountMode } from "../../domain/accounts/accounts.ts";
import { EVENT_DATA } from "../../domain/events/events.ts";
import type { EventContent, EventType, FeedPosition } from "../../domain/events/events.ts";
import { safeInteger } from "../columns.ts";
import { isOfMode, rowWithId } from "../ownedRecords.ts";
import { sql } from "../sql.ts";

/*
 * The feed is the account's registrations and its stored events, in the order of the transactions that recorded them. See
 * ADR 73.
 */

/** The oldest transaction that has not ended. Events from it on are not shown, because earlier ones may still appear. */
const HORIZON = sql.fragment`pg_snapshot_xmin(pg_current_snapshot())`;

const idOf = ({ id }: FeedPosition): FragmentSqlToken => sql.fragment`${id}::uuid`;
const transactionOf = ({ transactionId }: FeedPosition): FragmentSqlToken =>
  sql.fragment`${String(transactionId)}::xid8`;

/** The condition that an organization's registration is an event. The partial index of the feed has the same. */
const registrationsOf = (owner: AccountMode): FragmentSqlToken => sql.fragment`
  ${isOfMode("registration", owner)}
  AND registration.usage_batch IS NOT NULL
`;

const eventsOf = ({ accountId, mode }: AccountMode): FragmentSqlToken => sql.fragment`
  event.account_id = ${accountId}
  AND event.mode = ${mode}
  AND event.type = wanted.type
`;

/** Repeats the first column's comparison, because only that one is in the index of registrations. */
const following = (table: "registration" | "event", after: FeedPosition): FragmentSqlToken => {
  const transaction = sql.identifier([table, "transaction_id"]);
  return sql.fragment`
    ${transaction} >= ${transactionOf(after)}
    AND (${transaction}, ${sql.identifier([table, "id"])}) > (${transactionOf(after)}, ${idOf(after)})
  `;
};

const storedTypes = (types: readonly EventType[]): FragmentSqlToken =>
  sql.fragment`unnest(${sql.array(
    types.filter((type) => type !== "registration.created"),
    "text",
  )}) AS wanted (type)`;

/** Events up to a transaction, oldest first. Each part of the union is an index search that stops at the limit. */
const selectAfter = (
  owner: AccountMode,
  types: readonly EventType[],
  after: FeedPosition,
  { before, limit }: { readonly before: FragmentSqlToken; readonly limit: number },
): FragmentSqlToken => sql.fragment`
  SELECT candidate.*
  FROM (
    ${
      types.includes("registration.created")
        ? sql.fragment`
          (
            SELECT
              registration.transaction_id,
              registration.id,
              true AS is_registration,
              registration.json_bytes AS bytes
            FROM registration
            WHERE ${registrationsOf(owner)}
              AND ${following("registration", after)}
              AND registration.transaction_id < ${before}
            ORDER BY registration.transaction_id, registration.id
            LIMIT ${limit}
          )
          UNION ALL
        `
        : sql.fragment``
    }
    (
      SELECT stored.*
      FROM ${storedTypes(types)}
      CROSS JOIN LATERAL (
        SELECT event.transaction_id, event.id, false, octet_length(event.data::text)
        FROM event
        WHERE ${eventsOf(owner)}
          AND ${following("event", after)}
          AND event.transaction_id < ${before}
        ORDER BY event.transaction_id, event.id
        LIMIT ${limit}
      ) AS stored (transaction_id, id, is_registration, bytes)
    )
  ) AS candidate
  ORDER BY candidate.transaction_id, candidate.id
  LIMIT ${limit}
`;

const feedRow = z.strictObject({
  transactionId: z.string().transform(BigInt),
  id: z.uuid(),
  createdAt: z.date(),
  type: z.string(),
  data: z.unknown(),
  found: safeInteger,
});

/** An event and its place in the feed. */
export type FeedEvent = FeedPosition & EventContent & { readonly createdAt: Date };

const content = z.discriminatedUnion("type", [
  z.object({
    type: z.literal("registration.created"),
    data: EVENT_DATA["registration.created"],
  }),
  z.object({
    type: z.literal("registration.refunded"),
    data: EVENT_DATA["registration.refunded"],
  }),
  z.object({ type: z.literal("donation.created"), data: EVENT_DATA["donation.created"] }),
  z.object({ type: z.literal("donation.refunded"), data: EVENT_DATA["donation.refunded"] }),
  z.object({ type: z.literal("usage.failed"), data: EVENT_DATA["usage.failed"] }),
  z.object({ type: z.literal("usage.recovered"), data: EVENT_DATA["usage.recovered"] }),
  z.object({
    type: z.literal("evidence.milestone_reached"),
    data: EVENT_DATA["evidence.milestone_reached"],
  }),
]);

/**
 * Reads the events of an account and mode that follow a position, oldest first. None is left out: those of transactions
 * that may be overtaken by others come later.
 * @param limits the most events, and the most bytes of JSON; a single event may have more
 */
export const readEventsAfter = async (
  db: CommonQueryMethods,
  owner: AccountMode,
  types: readonly EventType[],
  after: FeedPosition,
  limits: { readonly events: number; readonly bytes: number },
): Promise<{ readonly events: readonly FeedEvent[]; readonly hasMore: boolean }> => {
  const rows = await db.any(sql.type(feedRow)`
    WITH picked AS MATERIALIZED (
      ${selectAfter(owner, types, after, { before: HORIZON, limit: limits.events + 1 })}
    ),
    placed AS (
      SELECT
        picked.*,
        row_number() OVER following AS place,
        sum(picked.bytes) OVER following - picked.bytes AS preceding_bytes,
        count(*) OVER () AS found
      FROM picked
      WINDOW following AS (ORDER BY picked.transaction_id, picked.id ROWS UNBOUNDED PRECEDING)
    )
    SELECT
      placed.transaction_id::text AS "transactionId",
      placed.id,
      coalesce(registration.created_at, event.created_at) AS "createdAt",
      coalesce(event.type, 'registration.created') AS type,
      CASE WHEN placed.is_registration THEN json_build_object(
        'registration_id', registration.id,
        'kind', registration.kind,
        'count', registration.count,
        'fractional_count', registration.fractional_count,
        'idempotency_key', coalesce(registration.idempotency_key, ''),
        'attribution', registration.attribution,
        'metadata', registration.metadata
      ) ELSE event.data END AS data,
      placed.found
    FROM placed
    -- With a limit each is a search by id. Without it, PostgreSQL may read all events of all accounts for a join.
    LEFT JOIN LATERAL (
      SELECT id, kind, count, fractional_count, created_at, idempotency_key, attribution, metadata
      FROM registration
      WHERE placed.is_registration AND registration.id = placed.id
      LIMIT 1
    ) AS registration ON true
    LEFT JOIN LATERAL (
      SELECT type, created_at, data
      FROM event
      WHERE NOT placed.is_registration AND event.id = placed.id
      LIMIT 1
    ) AS event ON true
    WHERE placed.place <= ${limits.events} AND placed.preceding_bytes < ${limits.bytes}
    ORDER BY placed.transaction_id, placed.id
  `);
  return {
    events: rows.map(({ transactionId, id, createdAt, type, data }) => ({
      transactionId,
      id,
      createdAt,
      ...content.parse({ type, data }),
    })),
    hasMore: rows.length < (rows[0]?.found ?? 0),
  };
};

const existsRow = z.strictObject({ exists: z.boolean() });

/** Returns whether the account has an event at a position. */
export const hasEventAt = (
  db: CommonQueryMethods,
  owner: AccountMode,
  position: FeedPosition,
): Promise<boolean> =>
  db.oneFirst(sql.type(existsRow)`
    SELECT
      EXISTS (
        SELECT
        FROM ${rowWithId("registration", idOf(position))}
        WHERE registration.transaction_id = ${transactionOf(position)} AND ${registrationsOf(owner)}
      )
      OR EXISTS (
        SELECT
        FROM event
        WHERE event.id = ${idOf(position)}
          AND event.transaction_id = ${transactionOf(position)}
          AND event.account_id = ${owner.accountId}
          AND event.mode = ${owner.mode}
      ) AS "exists"
  `);

/** Returns whether the account has events after a position and before a transaction. */
export const hasEventsBetween = (
  db: CommonQueryMethods,
  owner: AccountMode,
  types: readonly EventType[],
  after: FeedPosition,
  before: bigint,
): Promise<boolean> =>
  db.exists(sql.typeAlias("void")`
    ${selectAfter(owner, types, after, { before: sql.fragment`${String(before)}::xid8`, limit: 1 })}
  `);

const stateRow = z.strictObject({
  heldBackSince: z.date().nullable(),
  isFromElsewhere: z.boolean(),
});

/**
 * Returns since when events are recorded and not shown, because an older transaction is still open; null if there are
 * none. `isFromElsewhere`: records are of transactions that this server has not reached yet, so they were copied from
 * another server.
 */
export const readFeedState = (
  db: CommonQueryMethods,
  owner: AccountMode,
  types: readonly EventType[],
): Promise<Readonly<z.output<typeof stateRow>>> =>
  db.one(sql.type(stateRow)`
    SELECT
      min(held.created_at) AS "heldBackSince",
      coalesce(bool_or(held.latest >= pg_snapshot_xmax(pg_current_snapshot())), false) AS "isFromElsewhere"
    FROM (
      ${
        types.includes("registration.created")
          ? sql.fragment`
            SELECT (
              SELECT registration.created_at
              FROM registration
              WHERE ${registrationsOf(owner)} AND registration.transaction_id >= ${HORIZON}
              ORDER BY registration.transaction_id
              LIMIT 1
            ) AS created_at, (
              SELECT registration.transaction_id
              FROM registration
              WHERE ${registrationsOf(owner)}
              ORDER BY registration.transaction_id DESC
              LIMIT 1
            ) AS latest
            UNION ALL
          `
          : sql.fragment``
      }
      SELECT (
        SELECT event.created_at
        FROM event
        WHERE ${eventsOf(owner)} AND event.transaction_id >= ${HORIZON}
        ORDER BY event.transaction_id
        LIMIT 1
      ) AS created_at, (
        SELECT event.transaction_id
        FROM event
        WHERE ${eventsOf(owner)}
        ORDER BY event.transaction_id DESC
        LIMIT 1
      ) AS latest
      FROM ${storedTypes(types)}
    ) AS held
  `);

const blockerRow = z.strictObject({
  /** Null for a prepared transaction. */
  pid: z.int().nullable(),
  role: z.string().nullable(),
  openSince: z.date().nullable(),
});

/**
 * Returns the server process whose open transaction holds the feed back, or null. Since when it is open is null if the
 * transaction is another role's and ours may not see it.
 */
export const findFeedBlocker = (
  db: CommonQueryMethods,
): Promise<Readonly<z.output<typeof blockerRow>> | null> =>
  db.maybeOne(sql.type(blockerRow)`
    SELECT pg_locks.pid, activity.usename AS role, activity.xact_start AS "openSince"
    FROM pg_locks
    LEFT JOIN pg_stat_activity AS activity ON activity.pid = pg_locks.pid
    WHERE pg_locks.locktype = 'transactionid'
      AND pg_locks.mode = 'ExclusiveLock'
      AND pg_locks.granted
      AND pg_locks.transactionid = ${HORIZON}::xid
    LIMIT 1
  `);

const horizonRow = z.strictObject({ transactionId: z.string(), isOpen: z.boolean() });

/** Returns the oldest transaction that has not ended and writes; if there is none, the next one. */
export const readFeedHorizon = (
  db: CommonQueryMethods,
): Promise<Readonly<z.output<typeof horizonRow>>> =>
  db.one(sql.type(horizonRow)`
    SELECT
      pg_snapshot_xmin(snapshot)::text AS "transactionId",
      pg_snapshot_xmin(snapshot) < pg_snapshot_xmax(snapshot) AS "isOpen"
    FROM pg_current_snapshot() AS snapshot
  `);
