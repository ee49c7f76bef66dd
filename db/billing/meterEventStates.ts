import type { FragmentSqlToken } from "slonik";
import type { MeterEventState } from "../../domain/billing/usage.ts";
import { FAILED_STATES, UNFINISHED_STATES } from "../../domain/billing/usage.ts";
import { sql } from "../sql.ts";

/*
 * States for `state IN (…)`: as constants, without which PostgreSQL does not use the partial indexes over them,
 * meter_event_unfinished and meter_event_failed.
 */

const constants = (states: readonly MeterEventState[]): FragmentSqlToken =>
  sql.fragment`${sql.join(
    states.map((state) => sql.literalValue(state)),
    sql.fragment`, `,
  )}`;

export const UNFINISHED = constants(UNFINISHED_STATES);

export const FAILED = constants(FAILED_STATES);
