import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { KINDS } from "../records/owner.rules.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import { EVENT_TYPES } from "../events/events.rules.ts";
import type { EventContent, EventType, FeedPosition } from "../events/events.rules.ts";
import { FIRST_ID } from "../records/recordIds.rules.ts";
import { registrationCreated } from "../registrations/presentRegistration.rules.ts";
import { kindColumn } from "../records/columns.sql.ts";
import { registrationObject } from "../registrations/registrationColumns.sql.ts";
import { registrationRow } from "../registrations/registrations.rules.ts";
import { afterLookup, sql, timestamp, values } from "../../db/sql.ts";

/*
 * The feed is the account's registrations and its stored events, in the order of the transactions that recorded them. See
 * ADR 73.
 */

/** A page is not longer, whatever is asked for. */
const MAXIMUM_EVENTS = 1000;

/** The condition that a registration is an event. The partial index of the feed has the same. */
const IS_EVENT = sql.fragment`registration.usage_batch IS NOT NULL`;

type FeedQuery = {
  readonly owner: AccountMode;
  readonly types: readonly EventType[];
  /** The last event that was read; null for none. */
  readonly after: FeedPosition | null;
  /** Since when there are events for a reader that has read none. */
  readonly keptSince: Date;
  readonly limits: { readonly events: number; readonly bytes: number };
};

/** More transactions than begin while one is open: an account's first registration may be overtaken by so many. */
const OVERLAPPING_TRANSACTIONS = 1_000_000;

/** A transaction before all that recorded registrations of the account since a time; null if there are none. */
const transactionBefore = (
  { accountId, mode }: AccountMode,
  time: FragmentSqlToken,
) => sql.fragment`
  SELECT greatest(first.transaction_id::text::bigint - ${sql.literalValue(String(OVERLAPPING_TRANSACTIONS))}, 1)::text::xid8
  FROM ${values(KINDS)} AS searched (kind)
  CROSS JOIN LATERAL (
    SELECT transaction_id
    FROM registration
    WHERE (account_id, mode, kind, created_at) >= (${accountId}, ${mode}, searched.kind, ${time})
      AND (account_id, mode, kind) <= (${accountId}, ${mode}, searched.kind)
      AND ${IS_EVENT} AND transaction_id > '0'::xid8
    ORDER BY account_id, mode, kind, created_at
    LIMIT 1
  ) AS first
  ORDER BY first.transaction_id
  LIMIT 1
`;

/**
 * What a statement asks for, as a table of one row. The planner sees no value, so one plan is right for every account,
 * position and limit, and PostgreSQL can keep it. Records with the transaction 0 were copied from another server.
 */
const asked = ({ owner, types, after, keptSince, limits }: FeedQuery) => {
  const { transactionId, id } = after ?? { transactionId: 1n, id: FIRST_ID };
  return sql.fragment`
    (
      SELECT
        ${owner.accountId}::uuid AS account_id,
        ${owner.mode}::text AS mode,
        ${sql.array([...types], "text")} AS types,
        ${id}::uuid AS after_id,
        given.transaction_id AS after_transaction_id,
        CASE
          WHEN ${after === null}::boolean THEN (${transactionBefore(owner, timestamp(keptSince))})
          ELSE given.transaction_id
        END AS after_registration,
        ${after === null ? keptSince.toISOString() : "-infinity"}::timestamptz AS since,
        ${limits.events}::bigint AS maximum,
        ${limits.bytes}::bigint AS maximum_bytes,
        pg_snapshot_xmin(snapshot) AS horizon,
        pg_snapshot_xmax(snapshot) AS next_transaction_id
      FROM pg_current_snapshot() AS snapshot
      CROSS JOIN (SELECT ${String(transactionId)}::xid8 AS transaction_id) AS given
      OFFSET 0
    ) AS asked
  `;
};

/**
 * The events that are asked for, and one more, oldest first, with those that are held back after all others. Each part of the
 * union reads an index in its order and stops at the limit. With the literal limits, other plans never seem cheaper.
 */
const followingEvents = () => {
  const literalLimit = sql.literalValue(String(MAXIMUM_EVENTS + 1));
  return sql.fragment`
    SELECT candidate.*
    FROM (
      (
        SELECT
          registration.transaction_id, registration.id, registration.json_bytes AS bytes, registration.created_at,
          'registration.created' AS type, registration.kind, ${registrationObject("registration")} AS data
        FROM (
          SELECT *
          FROM registration
          WHERE (account_id, mode, transaction_id, id)
              > (asked.account_id, asked.mode, asked.after_registration, asked.after_id)
            AND (account_id, mode) <= (asked.account_id, asked.mode)
            AND ${IS_EVENT}
            AND created_at >= asked.since
            AND 'registration.created' = ANY(asked.types)
          ORDER BY account_id, mode, transaction_id, id
          LIMIT ${literalLimit}
        ) AS registration
        LIMIT asked.maximum + 1
      )
      UNION ALL
      (
        SELECT stored.*
        FROM unnest(asked.types) AS wanted (type)
        CROSS JOIN LATERAL (
          SELECT
            event.transaction_id, event.id, octet_length(event.data::text), event.created_at, event.type, NULL::text,
            event.data
          FROM (
            SELECT *
            FROM event
            WHERE (account_id, mode, type, transaction_id, id)
                > (asked.account_id, asked.mode, wanted.type, asked.after_transaction_id, asked.after_id)
              AND (account_id, mode, type) <= (asked.account_id, asked.mode, wanted.type)
              AND created_at >= asked.since
            ORDER BY account_id, mode, type, transaction_id, id
            LIMIT ${literalLimit}
          ) AS event
          LIMIT asked.maximum + 1
        ) AS stored
      )
    ) AS candidate
    ORDER BY candidate.transaction_id, candidate.id
    LIMIT asked.maximum + 1
  `;
};

/** The condition that the owner has the event that was read last. */
const HAS_GIVEN_EVENT = sql.fragment`
  EXISTS (
    SELECT
    FROM registration
    WHERE registration.id = asked.after_id
      AND ${afterLookup(sql.fragment`
        registration.transaction_id = asked.after_transaction_id
        AND registration.account_id = asked.account_id
        AND registration.mode = asked.mode
        AND ${IS_EVENT}
      `)}
  )
  OR EXISTS (
    SELECT
    FROM event
    WHERE event.id = asked.after_id
      AND ${afterLookup(sql.fragment`
        event.transaction_id = asked.after_transaction_id
        AND event.account_id = asked.account_id
        AND event.mode = asked.mode
      `)}
  )
`;

const content = z.union([
  z
    .object({ type: z.literal("registration.created"), kind: kindColumn, data: registrationRow })
    .transform(({ type, kind, data }) => ({ type, data: registrationCreated(kind, data) })),
  z
    .object({ type: z.enum(EVENT_TYPES), data: z.looseObject({}) })
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the data were stored by their type, and responses are checked.
    .transform(({ type, data }) => ({ type, data }) as EventContent),
]);

const eventRow = z
  .object({ transactionId: z.string().transform(BigInt), id: z.uuid(), createdAt: z.coerce.date() })
  .and(content);

/** An event and its place in the feed. */
export type FeedEvent = Readonly<z.output<typeof eventRow>>;

const pageRow = z.strictObject({
  isKnown: z.boolean(),
  events: z.array(eventRow),
  hasMore: z.boolean(),
  heldBackSince: z.date().nullable(),
  isFromElsewhere: z.boolean(),
});

/**
 * Reads the events of an account and mode that follow a position, oldest first, by one statement, so all that it returns is
 * of the same moment. No event is left out: those of transactions that may be overtaken by others come later.
 * @param query.limits the most events, and the most bytes of JSON; a single event may have more
 * @returns `isKnown`: whether the owner has the event that was read last. `heldBackSince`: since when events are recorded
 * and not shown, because an older transaction is still open. `isFromElsewhere`: events that are held back are of transactions
 * that this server has not reached yet, so they were copied from another server.
 */
export const readFeedPage = (db: CommonQueryMethods, query: FeedQuery) =>
  db.one(sql.prepared("read_feed", pageRow)`
    SELECT ${HAS_GIVEN_EVENT} AS "isKnown", page.*
    FROM ${asked(query)}
    CROSS JOIN LATERAL (
      SELECT
        coalesce(
          json_agg(
            json_build_object(
              'transactionId', placed.transaction_id::text,
              'id', placed.id,
              'createdAt', placed.created_at,
              'type', placed.type,
              'kind', placed.kind,
              'data', placed.data
            )
            ORDER BY placed.place
          ) FILTER (WHERE placed.is_ended AND placed.fits),
          '[]'
        ) AS events,
        coalesce(bool_or(placed.is_ended AND NOT placed.fits), false) AS "hasMore",
        min(placed.created_at) FILTER (WHERE NOT placed.is_ended) AS "heldBackSince",
        coalesce(bool_or(placed.transaction_id >= asked.next_transaction_id), false) AS "isFromElsewhere"
      FROM (
        SELECT
          picked.*,
          picked.transaction_id < asked.horizon AS is_ended,
          row_number() OVER following AS place,
          row_number() OVER following <= asked.maximum
            AND sum(picked.bytes) OVER following - picked.bytes < asked.maximum_bytes AS fits
        FROM (${followingEvents()}) AS picked
        WINDOW following AS (ORDER BY picked.transaction_id, picked.id ROWS UNBOUNDED PRECEDING)
      ) AS placed
    ) AS page
  `);

const horizonRow = z.strictObject({ transactionId: z.string(), isOpen: z.boolean() });

/** Returns the oldest transaction that has not ended and writes; if there is none, the next one. */
export const readFeedHorizon = (db: CommonQueryMethods) =>
  db.one(sql.type(horizonRow)`
    SELECT
      pg_snapshot_xmin(snapshot)::text AS "transactionId",
      pg_snapshot_xmin(snapshot) < pg_snapshot_xmax(snapshot) AS "isOpen"
    FROM pg_current_snapshot() AS snapshot
  `);
