import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { PERPETUAL_KINDS } from "../runtime/perpetualWork.rules.ts";
import type { PerpetualKind } from "../runtime/perpetualWork.rules.ts";
import { sql, values } from "./sql.ts";

/** Records that a worker looks for work of a kind. */
export const recordPass = (db: CommonQueryMethods, kind: PerpetualKind) =>
  db.query(sql.typeAlias("void")`
    INSERT INTO perpetual_work (kind, last_pass_at)
    VALUES (${kind}, now())
    ON CONFLICT (kind) DO UPDATE SET last_pass_at = excluded.last_pass_at
  `);

const passRow = z.strictObject({
  kind: z.enum(PERPETUAL_KINDS),
  ageSeconds: z.float64(),
  hasPassed: z.boolean(),
});

/**
 * Lists how long ago a worker last looked for work of each kind, by PostgreSQL's clock, and whether one ever has. Until then,
 * the age is that of the installation.
 */
export const listLastPasses = (db: CommonQueryMethods) =>
  db.any(sql.type(passRow)`
    SELECT
      given.kind,
      extract(epoch FROM now() - coalesce(work.last_pass_at, deployment.created_at))::double precision AS "ageSeconds",
      work.last_pass_at IS NOT NULL AS "hasPassed"
    FROM deployment
    CROSS JOIN ${values(PERPETUAL_KINDS)} AS given (kind)
    LEFT JOIN perpetual_work AS work ON work.kind = given.kind
  `);
