import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { PLANTING_STAGES } from "./order.rules.ts";
import { plantingFact } from "./fact.rules.ts";
import type { PlantingFact } from "./fact.rules.ts";
import { columnsOf, safeInteger, sql, timestamp } from "../../db/sql.ts";

const factRow = z.strictObject({
  id: safeInteger,
  stage: z.enum(PLANTING_STAGES),
  state: z.enum(["accepted", "waiting", "contradiction", "withdrawn"]),
  reason: z.string().nullable(),
  source: z.enum(["partner", "callback", "operator", "import"]),
  occurredAt: z.date(),
  content: plantingFact,
  receivedAt: z.date(),
  withdrawnAt: z.date().nullable(),
  withdrawnBy: z.string().nullable(),
  digest: z.string(),
});

export type StoredFact = Readonly<z.output<typeof factRow>>;

export type FactSource = StoredFact["source"];

export const listFacts = (db: CommonQueryMethods, orderId: number) =>
  db.any(sql.type(factRow)`
    SELECT ${columnsOf("planting_fact", factRow, { digest: sql.fragment`encode(digest, 'hex')` })}
    FROM planting_fact
    WHERE order_id = ${orderId}
    ORDER BY id
  `);

const idRow = z.strictObject({ id: safeInteger });

/** Inserts a fact that waits, or returns null if an equal one is stored. A withdrawn one waits again if an operator records it. */
export const insertFact = (
  transaction: DatabaseTransactionConnection,
  orderId: number,
  fact: {
    readonly content: PlantingFact;
    readonly digest: string;
    readonly source: FactSource;
    readonly now: Date;
  },
) =>
  transaction.maybeOneFirst(sql.type(idRow)`
    INSERT INTO planting_fact (order_id, stage, state, source, occurred_at, content, digest, received_at)
    VALUES (
      ${orderId}, ${fact.content.stage}, 'waiting', ${fact.source}, ${timestamp(fact.content.occurred_at)},
      ${JSON.stringify(fact.content)}::jsonb, decode(${fact.digest}, 'hex'), ${timestamp(fact.now)}
    )
    ON CONFLICT (order_id, stage, digest) DO UPDATE
    SET state = 'waiting', reason = NULL, withdrawn_by = NULL, withdrawn_at = NULL
    WHERE planting_fact.state = 'withdrawn' AND ${fact.source === "operator"}
    RETURNING id
  `);

/** @param siteId the site that the photos and videos of the fact show; null if it has none */
export const storeDecision = (
  transaction: DatabaseTransactionConnection,
  { id, state, reason }: Pick<StoredFact, "id" | "state" | "reason">,
  siteId: number | null,
) =>
  transaction.query(sql.typeAlias("void")`
    UPDATE planting_fact
    SET state = ${state}, reason = ${reason}, site_id = ${siteId}::integer
    WHERE id = ${id}
      AND (state, reason, site_id) IS DISTINCT FROM (${state}, ${reason}, ${siteId}::integer)
  `);

/** Marks a fact as withdrawn, unless it is already. Its content and its proof stay. */
export const withdrawFact = (
  transaction: DatabaseTransactionConnection,
  given: {
    readonly id: number;
    readonly reason: string;
    readonly operator: string;
    readonly at: Date;
  },
) =>
  transaction.query(sql.typeAlias("void")`
    UPDATE planting_fact
    SET state = 'withdrawn', reason = ${given.reason}, withdrawn_by = ${given.operator}, withdrawn_at = ${timestamp(given.at)}
    WHERE id = ${given.id} AND state <> 'withdrawn'
  `);
