import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { SHARDS_OF } from "./shards.rules.ts";
import type { ShardKind } from "./shards.rules.ts";
import { sql } from "./sql.ts";

/** Records that the senders of shards look for work. */
export const recordShardPasses = async (
  db: CommonQueryMethods,
  kind: ShardKind,
  shards: readonly number[],
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    INSERT INTO shard (kind, number, last_pass_at)
    SELECT DISTINCT ${kind}, number, now()
    FROM unnest(${sql.array([...shards], "int4")}) AS number
    ORDER BY number
    ON CONFLICT (kind, number) DO UPDATE SET last_pass_at = excluded.last_pass_at
  `);
};

const shardRow = z.strictObject({
  number: z.int(),
  ageSeconds: z.float64(),
  hasPassed: z.boolean(),
});

/**
 * A shard, how long ago its sender last looked for work, by PostgreSQL's clock, and whether it ever has. Until then, its age
 * is that of the installation.
 */
export type ShardStatus = Readonly<z.output<typeof shardRow>>;

export const listShardStatuses = (
  db: CommonQueryMethods,
  kind: ShardKind,
): Promise<readonly ShardStatus[]> =>
  db.any(sql.type(shardRow)`
    SELECT
      given.number,
      extract(epoch FROM now() - coalesce(shard.last_pass_at, deployment.created_at))::double precision AS "ageSeconds",
      shard.last_pass_at IS NOT NULL AS "hasPassed"
    FROM deployment
    CROSS JOIN generate_series(0, ${SHARDS_OF[kind] - 1}) AS given (number)
    LEFT JOIN shard ON shard.kind = ${kind} AND shard.number = given.number
    ORDER BY given.number
  `);
