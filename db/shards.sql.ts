import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { SHARDS } from "./shards.rules.ts";
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

const shardRow = z.strictObject({ number: z.int(), lastPassAt: z.date(), ageSeconds: z.number() });

/** A shard, and when its sender last looked for work, by PostgreSQL's clock. */
type ShardStatus = Readonly<z.output<typeof shardRow>>;

/** Lists the shards whose sender has ever looked for work. */
export const listShardStatuses = (
  db: CommonQueryMethods,
  kind: ShardKind,
): Promise<readonly ShardStatus[]> =>
  db.any(sql.type(shardRow)`
    SELECT
      number,
      last_pass_at AS "lastPassAt",
      extract(epoch FROM now() - last_pass_at)::double precision AS "ageSeconds"
    FROM shard
    WHERE kind = ${kind} AND number < ${SHARDS}
    ORDER BY number
  `);

const shardAgeRow = shardRow.pick({ number: true, ageSeconds: true });

/** Returns how long ago the sender of each shard last looked for work; before it ever has, the age of the installation. */
export const listShardAges = (
  db: CommonQueryMethods,
  kind: ShardKind,
): Promise<readonly Pick<ShardStatus, "number" | "ageSeconds">[]> =>
  db.any(sql.type(shardAgeRow)`
    SELECT
      given.number,
      extract(epoch FROM now() - coalesce(shard.last_pass_at, deployment.created_at))::double precision AS "ageSeconds"
    FROM deployment
    CROSS JOIN generate_series(0, ${SHARDS - 1}) AS given (number)
    LEFT JOIN shard ON shard.kind = ${kind} AND shard.number = given.number
    ORDER BY given.number
  `);
