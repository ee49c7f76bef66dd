import type { CommonQueryMethods, ListSqlToken } from "slonik";
import { z } from "zod";
import type { AccountMode, Kind } from "../records/owner.rules.ts";
import { KINDS } from "../records/owner.rules.ts";
import { safeInteger, inRange, sql } from "../../db/sql.ts";
import { newerThan, positionColumn } from "../records/listPositions.sql.ts";
import type { ListPosition } from "../records/listPositions.sql.ts";
import { hasAttribution } from "../records/ownedRecords.sql.ts";

/** Selects an account's registrations of all kinds; null matches any. `from` is inclusive, `until` exclusive. */
export type RefundFilter = AccountMode & {
  readonly attribution: string | null;
  readonly from: Date | null;
  readonly until: Date | null;
};

const conditions = ({ accountId, mode, attribution, from, until }: RefundFilter): ListSqlToken =>
  sql.join(
    [
      sql.fragment`registration.account_id = ${accountId} AND registration.mode = ${mode}`,
      sql.fragment`registration.kind = ANY(${sql.array([...KINDS], "text")})`,
      sql.fragment`registration.refunded_count < registration.count`,
      ...(attribution === null ? [] : [hasAttribution("registration", attribution)]),
      ...inRange(sql.identifier(["registration", "created_at"]), { from, until }),
    ],
    sql.fragment` AND `,
  );

const sizeRow = z.strictObject({ registrations: safeInteger, units: z.bigint() });

/** Returns how many registrations match and have units left, and those units. */
export const sumRefundable = (
  db: CommonQueryMethods,
  filter: RefundFilter,
): Promise<Readonly<z.output<typeof sizeRow>>> =>
  db.one(sql.type(sizeRow)`
    SELECT
      count(*) AS registrations,
      coalesce(sum(registration.count - registration.refunded_count), 0)::bigint AS units
    FROM registration
    WHERE ${conditions(filter)}
  `);

const refundableRow = z.strictObject({ id: z.uuid(), position: z.string() });

/** A registration with units left. */
export type RefundableRecord = Readonly<z.output<typeof refundableRow>>;

/** Lists a page of the matching registrations of a kind that have units left, oldest first. */
export const listRefundable = (
  db: CommonQueryMethods,
  filter: RefundFilter,
  kind: Kind,
  { after, limit }: { readonly after: ListPosition | null; readonly limit: number },
): Promise<readonly RefundableRecord[]> =>
  db.any(sql.type(refundableRow)`
    SELECT registration.id, ${positionColumn("registration")}
    FROM registration
    WHERE ${conditions(filter)}
      AND registration.kind = ${kind}
      AND ${newerThan("registration", after)}
    ORDER BY registration.created_at, registration.id
    LIMIT ${limit}
  `);
