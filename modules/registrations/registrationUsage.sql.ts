import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { Owner } from "../records/owner.rules.ts";
import { PROCESSORS } from "../billing/usage.rules.ts";
import { FACT_STATES } from "../billing/billingStatus.rules.ts";
import { isFoundOwn, ownedWithId } from "../records/ownedRecords.sql.ts";
import { countedRefunds, usageOfRegistration } from "../billing/registrationFacts.sql.ts";
import { columnsOf, sql } from "../../db/sql.ts";
import { coreRow } from "./registrations.rules.ts";

const usageRow = coreRow.extend({
  /** The different states of its usage facts. Of many refunds, `delivered` is left out. */
  states: z.array(z.enum(FACT_STATES)),
  isLate: z.boolean(),
  /** Who bills it; null until its usage is sealed. */
  processor: z.enum(PROCESSORS).nullable(),
});

export type RegistrationUsage = Readonly<z.output<typeof usageRow>>;

/** Selects the registrations for which a condition holds, with their usage, newest first. */
const usageOf = (condition: FragmentSqlToken) => sql.fragment`
  SELECT ${columnsOf("registration", coreRow)}, usage.states, usage.is_late AS "isLate", usage.processor
  FROM registration
  CROSS JOIN LATERAL ${countedRefunds} AS refunds
  CROSS JOIN LATERAL (
    SELECT
      coalesce(array_agg(DISTINCT state), '{}') AS states,
      coalesce(bool_or(is_late), false) AS is_late,
      min(processor) AS processor
    FROM ${usageOfRegistration} AS fact
  ) AS usage
  WHERE ${condition}
  ORDER BY registration.created_at DESC, registration.id DESC
`;

export const findRegistrationUsage = (db: CommonQueryMethods, owner: Owner, id: string) =>
  db.maybeOne(sql.prepared("find_registration_usage", usageRow)`
    ${usageOf(ownedWithId("registration", owner, id))}
  `);

/** Returns the owner's registrations with these ids of their own, with their usage, newest first. */
export const listRegistrationUsage = (
  db: CommonQueryMethods,
  owner: Owner,
  ids: readonly string[],
) =>
  db.any(sql.prepared("list_registration_usage", usageRow)`
    ${usageOf(sql.fragment`
      registration.id = ANY(ARRAY(SELECT unnest((SELECT ${sql.array([...ids], "uuid")}))))
      AND ${isFoundOwn("registration", owner)}
    `)}
  `);
