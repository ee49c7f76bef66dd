import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { Owner } from "../records/owner.rules.ts";
import { PROCESSORS } from "../billing/usage.rules.ts";
import { FACT_STATES } from "../billing/billingStatus.rules.ts";
import { ownedBy, ownedWithId } from "../records/ownedRecords.sql.ts";
import {
  countedRefunds,
  usageOfManyRefunds,
  factsOfFewRefunds,
} from "../billing/registrationFacts.sql.ts";
import { isLateWithoutDocument } from "../billing/meterEvents.sql.ts";
import { olderThan, positionColumn } from "../records/listPositions.sql.ts";
import type { ListPosition } from "../records/listPositions.sql.ts";
import { inRange, sql } from "../../db/sql.ts";
import { coreColumns, coreRow } from "./registrations.sql.ts";

const usageRow = z.strictObject({
  ...coreRow,
  position: z.string(),
  /**
   * The different states of its usage facts. Those of many refunds are listed only if they are unsealed, pending, failed or
   * closed.
   */
  states: z.array(z.enum(FACT_STATES)),
  isLate: z.boolean(),
  /** Who bills it; null until its usage is sealed. */
  processor: z.enum(PROCESSORS).nullable(),
});

/** A registration with the states of its usage. */
export type RegistrationUsage = Readonly<z.output<typeof usageRow>>;

/** Selects the registrations that the clauses leave, with their usage. */
const usageOf = (clauses: FragmentSqlToken): FragmentSqlToken => sql.fragment`
  SELECT
    ${coreColumns},
    ${positionColumn("registration")},
    usage.states,
    usage.is_late AS "isLate",
    usage.processor
  FROM (
    SELECT id, imported_id, account_id, mode, kind, count, refunded_count, created_at, usage_batch
    FROM registration
    ${clauses}
  ) AS registration
  CROSS JOIN LATERAL ${countedRefunds} AS refunds
  CROSS JOIN LATERAL (
    SELECT
      coalesce(array_agg(DISTINCT state), '{}') AS states,
      coalesce(bool_or(is_late), false) AS is_late,
      min(processor) AS processor
    FROM (
      SELECT
        coalesce(meter_event.state, 'unsealed') AS state,
        coalesce(${isLateWithoutDocument}, false) AS is_late,
        meter_event.processor
      FROM ${factsOfFewRefunds} AS usage_fact
      LEFT JOIN meter_event ON meter_event.id = usage_fact.meter_event_id
      UNION ALL
      ${usageOfManyRefunds}
    ) AS fact
  ) AS usage
  ORDER BY registration.created_at DESC, registration.id DESC
`;

/** Returns one of the owner's registrations with its usage, or null. */
export const findRegistrationUsage = (
  db: CommonQueryMethods,
  owner: Owner,
  id: string,
): Promise<RegistrationUsage | null> =>
  db.maybeOne(sql.prepared("find_registration_usage", usageRow)`
    ${usageOf(sql.fragment`WHERE ${ownedWithId("registration", owner, id)}`)}
  `);

/** Lists an owner's registrations with their usage, newest first. */
export const listRegistrationUsage = (
  db: CommonQueryMethods,
  owner: Owner,
  {
    after,
    limit,
    ...range
  }: {
    /** Inclusive. */
    readonly from: Date | null;
    /** Exclusive. */
    readonly until: Date | null;
    readonly after: ListPosition | null;
    readonly limit: number;
  },
): Promise<readonly RegistrationUsage[]> =>
  db.any(sql.type(usageRow)`
    ${usageOf(sql.fragment`
      WHERE ${sql.join(
        [
          ownedBy("registration", owner),
          ...inRange(sql.fragment`created_at`, range),
          olderThan("registration", after),
        ],
        sql.fragment` AND `,
      )}
      ORDER BY created_at DESC, id DESC
      LIMIT ${limit}
    `)}
  `);
