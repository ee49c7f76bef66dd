import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { PLANTING_STAGES } from "./order.rules.ts";
import type { PlantingStage } from "./order.rules.ts";
import { plantingFact } from "./fact.rules.ts";
import type { PlantingFact } from "./fact.rules.ts";
import { safeInteger, sql, timestamp } from "../../db/sql.ts";

const STATES = ["accepted", "waiting", "contradiction", "withdrawn"] as const;

const factRow = z.strictObject({
  id: safeInteger,
  stage: z.enum(PLANTING_STAGES),
  state: z.enum(STATES),
  reason: z.string().nullable(),
  source: z.enum(["partner", "callback", "operator", "import"]),
  occurredAt: z.date(),
  content: plantingFact,
  digest: z.string(),
  receivedAt: z.date(),
  withdrawnAt: z.date().nullable(),
  withdrawnBy: z.string().nullable(),
});

/** A reported fact of an order, with its state. */
export type StoredFact = Readonly<z.output<typeof factRow>>;

export type FactSource = StoredFact["source"];

const columns = sql.fragment`
  id, stage, state, reason, source, occurred_at AS "occurredAt", content, encode(digest, 'hex') AS digest,
  received_at AS "receivedAt", withdrawn_at AS "withdrawnAt", withdrawn_by AS "withdrawnBy"
`;

/** Lists the facts of an order as they were received, all or those in some states. */
export const listFacts = (
  db: CommonQueryMethods,
  orderId: number,
  states: readonly StoredFact["state"][] = STATES,
): Promise<readonly StoredFact[]> =>
  db.any(sql.type(factRow)`
    SELECT ${columns}
    FROM planting_fact
    WHERE order_id = ${orderId} AND state = ANY(${sql.array(states, "text")})
    ORDER BY id
  `);

const countRow = z.strictObject({ count: safeInteger });

/** Counts the facts of an order that wait or contradict. */
export const countUnsettledFacts = (db: CommonQueryMethods, orderId: number): Promise<number> =>
  db.oneFirst(sql.type(countRow)`
    SELECT count(*) AS count
    FROM planting_fact
    WHERE order_id = ${orderId} AND state IN ('waiting', 'contradiction')
  `);

/** Finds the fact of an order with a stage and a digest. */
export const findFact = (
  db: CommonQueryMethods,
  orderId: number,
  fact: { readonly stage: PlantingStage; readonly digest: string },
): Promise<StoredFact | null> =>
  db.maybeOne(sql.type(factRow)`
    SELECT ${columns}
    FROM planting_fact
    WHERE order_id = ${orderId} AND stage = ${fact.stage} AND digest = decode(${fact.digest}, 'hex')
  `);

const orderIdRow = z.strictObject({ orderId: z.int() });

/** Returns the order of a fact. */
export const findFactOrder = (db: CommonQueryMethods, id: number): Promise<number | null> =>
  db.maybeOneFirst(sql.type(orderIdRow)`
    SELECT order_id AS "orderId"
    FROM planting_fact
    WHERE id = ${id}
  `);

/**
 * Inserts a fact that waits.
 * @returns false if an equal fact is already stored
 */
export const insertFact = async (
  transaction: DatabaseTransactionConnection,
  fact: {
    readonly orderId: number;
    readonly source: FactSource;
    readonly content: PlantingFact;
    readonly digest: string;
    readonly receivedAt: Date;
  },
): Promise<boolean> => {
  const { rowCount } = await transaction.query(sql.typeAlias("void")`
    INSERT INTO planting_fact (order_id, stage, state, source, occurred_at, content, digest, received_at)
    VALUES (
      ${fact.orderId}, ${fact.content.stage}, 'waiting', ${fact.source},
      ${timestamp(fact.content.occurred_at)}, ${JSON.stringify(fact.content)}::jsonb, decode(${fact.digest}, 'hex'),
      ${timestamp(fact.receivedAt)}
    )
    ON CONFLICT (order_id, stage, digest) DO NOTHING
  `);
  return rowCount > 0;
};

/**
 * Marks a stored fact as accepted.
 * @param siteIds the sites that it is about; its photos and videos show the first
 */
export const acceptFact = async (
  transaction: DatabaseTransactionConnection,
  id: number,
  siteIds: readonly number[],
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE planting_fact
    SET state = 'accepted', reason = NULL, site_ids = ${sql.array(siteIds, "int4")}
    WHERE id = ${id}
  `);
};

export const contradictFact = async (
  transaction: DatabaseTransactionConnection,
  id: number,
  reason: string,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE planting_fact
    SET state = 'contradiction', reason = ${reason}
    WHERE id = ${id}
  `);
};

/** Marks a fact as withdrawn. Its content and its proof stay. */
export const withdrawFact = async (
  transaction: DatabaseTransactionConnection,
  id: number,
  {
    reason,
    operator,
    withdrawnAt,
  }: { readonly reason: string; readonly operator: string; readonly withdrawnAt: Date },
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE planting_fact
    SET
      state = 'withdrawn',
      reason = ${reason},
      withdrawn_by = ${operator},
      withdrawn_at = ${timestamp(withdrawnAt)}
    WHERE id = ${id}
  `);
};

/**
 * Lets a fact of an order wait, so that it is decided again.
 * @param id null for all accepted facts
 */
export const reconsiderFacts = async (
  transaction: DatabaseTransactionConnection,
  orderId: number,
  id: number | null,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE planting_fact
    SET state = 'waiting', reason = NULL, withdrawn_at = NULL, withdrawn_by = NULL
    WHERE order_id = ${orderId} AND ${id === null ? sql.fragment`state = 'accepted'` : sql.fragment`id = ${id}`}
  `);
};
