import { z } from "zod";
import { safeInteger, sql } from "../../../db/sql.ts";
import type { setUpRestore } from "./restoreSetup.ts";

type Scene = Awaited<ReturnType<typeof setUpRestore>>;
export type Opened = Scene["original"];

const factRow = z.strictObject({
  identifier: z.string().nullable(),
  state: z.string().nullable(),
  customerId: z.string().nullable(),
  second: safeInteger,
  /** The same in all copies of a database. */
  cause: z.string(),
  /** Without those that an earlier event has reported. */
  units: safeInteger,
  reported: safeInteger,
});

type Fact = Readonly<z.output<typeof factRow>>;

/** Lists the facts of a database. */
export const listFacts = ({ db }: Opened): Promise<readonly Fact[]> =>
  db.any(sql.type(factRow)`
    SELECT
      meter_event.identifier,
      meter_event.state,
      meter_event.customer_id AS "customerId",
      usage_fact.second,
      coalesce(
        usage_fact.refund_id::text,
        registration.id::text,
        'correction ' || usage_fact.correction_id || ' of ' || usage_correction.corrected_at
      ) AS cause,
      usage_fact.quantity - coalesce(usage_fact.already_reported, 0) AS units,
      coalesce(usage_fact.already_reported, 0) AS reported
    FROM usage_fact
    LEFT JOIN meter_event ON meter_event.id = usage_fact.meter_event_id
    LEFT JOIN registration ON registration.usage_batch = usage_fact.usage_batch
    LEFT JOIN usage_correction ON usage_correction.id = usage_fact.correction_id
    ORDER BY usage_fact.id
  `);

/** What an operator finds out about an event: the customer that has all of it, that none has anything, or neither. */
export type Finding = {
  readonly assumed: "delivered" | "absent";
  readonly customerId: string | null;
};

/** What the double has of each registration, refund and correction, in whatever history it was sent. */
export const createTruth = ({ control }: Pick<Scene, "control">) => {
  const partsOf: Pick<Fact, "cause" | "units">[][] = [];
  const byHand: Fact[] = [];
  return {
    /** Records that a document bills an event's facts, so that they count as if its customer had them. */
    billByHand: (facts: readonly Fact[]): void => {
      byHand.push(...facts);
    },
    /** Records what the events are of that the double has accepted since the last call. One database has sent them. */
    record: async (opened: Opened): Promise<void> => {
      const added = control.events().slice(partsOf.length);
      const facts = added.length === 0 ? [] : await listFacts(opened);
      for (const { identifier, value } of added) {
        const parts = facts.filter((fact) => fact.identifier === identifier);
        const sum = parts.reduce((units, part) => units + part.units, 0);
        if (sum !== value) {
          throw new Error(`The facts of ${identifier} have ${sum} units, not ${value}.`);
        }
        partsOf.push(parts);
      }
    },
    /** Returns which customer has facts of a database, or that none has; null if customers have parts of them. */
    find: (facts: readonly Fact[]): Finding | null => {
      const causes = new Set(facts.map(({ cause }) => cause));
      const billed = new Map<string, number>();
      const bill = (of: string | null, { cause, units }: Pick<Fact, "cause" | "units">): void => {
        if (of !== null && causes.has(cause)) {
          billed.set(of, (billed.get(of) ?? 0) + units);
        }
      };
      for (const part of byHand) {
        bill(part.customerId, part);
      }
      for (const [index, { customerId, rejectedWith }] of control.events().entries()) {
        for (const part of rejectedWith === null ? (partsOf[index] ?? []) : []) {
          bill(customerId, part);
        }
      }
      const quantity = facts.reduce((sum, { units }) => sum + units, 0);
      const [found, ...others] = [...billed].filter(([, units]) => units !== 0);
      if (facts.some(({ reported }) => reported !== 0) || others.length > 0) {
        return null;
      }
      if (found === undefined) {
        return { assumed: "absent", customerId: null };
      }
      return found[1] === quantity ? { assumed: "delivered", customerId: found[0] } : null;
    },
  };
};
