import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { PLANTING_STAGES } from "../../domain/planting/order.ts";
import type { PlantingStage } from "../../domain/planting/order.ts";
import { plantingFact } from "../../domain/planting/fact.ts";
import type { PlantingFact } from "../../domain/planting/fact.ts";
import { sql } from "../sql.ts";

const factRow = z.strictObject({
  id: z.bigint().transform(Number),
  stage: z.enum(PLANTING_STAGES),
  state: z.enum(["accepted", "waiting", "contradiction"]),
  reason: z.string().nullable(),
  source: z.enum(["partner", "callback", "operator"]),
  occurredAt: z.date(),
  content: plantingFact,
  digest: z.string(),
  receivedAt: z.date(),
});

/** A fact that was reported of an order, and what became of it. */
export type StoredFact = Readonly<z.output<typeof factRow>>;

/** Who reported a fact. */
export type FactSource = StoredFact["source"];

/** All facts of an order in the order in which they came. */
export const listFacts = (
  db: CommonQueryMethods,
  orderId: number,
): Promise<readonly StoredFact[]> =>
  db.any(sql.type(factRow)`
    SELECT
      id, stage, state, reason, source, occurred_at AS "occurredAt", content, encode(digest, 'hex') AS digest,
      received_at AS "receivedAt"
    FROM planting_fact
    WHERE order_id = ${orderId}
    ORDER BY id
  `);

/** @returns whether it was new; what repeats another word for word is left out */
export const insertFact = async (
  transaction: DatabaseTransactionConnection,
  fact: {
    readonly orderId: number;
    readonly state: StoredFact["state"];
    readonly reason: string | null;
    readonly source: FactSource;
    readonly content: PlantingFact;
    readonly digest: string;
    readonly receivedAt: Date;
  },
): Promise<boolean> => {
  const { rowCount } = await transaction.query(sql.typeAlias("void")`
    INSERT INTO planting_fact (order_id, stage, state, reason, source, occurred_at, content, digest, received_at)
    VALUES (
      ${fact.orderId}, ${fact.content.stage}, ${fact.state}, ${fact.reason}, ${fact.source},
      ${fact.content.occurred_at}::timestamptz, ${JSON.stringify(fact.content)}::jsonb, decode(${fact.digest}, 'hex'),
      ${fact.receivedAt.toISOString()}::timestamptz
    )
    ON CONFLICT (order_id, stage, digest) DO NOTHING
  `);
  return rowCount > 0;
};

/** Puts a kept fact in force, with what it shows. */
export const acceptFact = async (
  transaction: DatabaseTransactionConnection,
  orderId: number,
  fact: { readonly stage: PlantingStage; readonly digest: string },
  evidence: object | null,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE planting_fact
    SET state = 'accepted', reason = NULL, evidence = ${evidence && JSON.stringify(evidence)}::jsonb
    WHERE order_id = ${orderId} AND stage = ${fact.stage} AND digest = decode(${fact.digest}, 'hex')
  `);
};

export const contradictFact = async (
  transaction: DatabaseTransactionConnection,
  orderId: number,
  fact: { readonly stage: PlantingStage; readonly digest: string },
  reason: string,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE planting_fact
    SET state = 'contradiction', reason = ${reason}
    WHERE order_id = ${orderId} AND stage = ${fact.stage} AND digest = decode(${fact.digest}, 'hex')
  `);
};
