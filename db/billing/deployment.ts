import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { LiveProcessor } from "../../domain/billing/deployment.ts";
import { processorColumn } from "../columns.ts";
import { sql } from "../sql.ts";

const deploymentRow = z
  .strictObject({
    id: z.uuid(),
    createdAt: z.date(),
    processor: processorColumn.nullable(),
    stripeAccountId: z.string().nullable(),
    stripeLivemode: z.boolean().nullable(),
    processorRecordedAt: z.date().nullable(),
    processorRecordedBy: z.string().nullable(),
  })
  .transform(({ processor, stripeAccountId, stripeLivemode, ...row }) => ({
    ...row,
    processor: ((): LiveProcessor | null => {
      if (stripeAccountId !== null && stripeLivemode !== null) {
        return { name: "stripe", account: { id: stripeAccountId, isLive: stripeLivemode } };
      }
      return processor === null ? null : { name: "ledger" };
    })(),
  }));

export type Deployment = Readonly<z.output<typeof deploymentRow>>;

const columns = sql.fragment`
  id,
  created_at AS "createdAt",
  processor,
  stripe_account_id AS "stripeAccountId",
  stripe_livemode AS "stripeLivemode",
  processor_recorded_at AS "processorRecordedAt",
  processor_recorded_by AS "processorRecordedBy"
`;

export const readDeployment = (db: CommonQueryMethods): Promise<Deployment> =>
  db.one(sql.prepared("read_deployment", deploymentRow)`
    SELECT ${columns}
    FROM deployment
  `);

/** Locks the deployment's row until the transaction ends, and returns it. */
export const lockDeployment = (transaction: DatabaseTransactionConnection): Promise<Deployment> =>
  transaction.one(sql.type(deploymentRow)`
    SELECT ${columns}
    FROM deployment
    FOR UPDATE
  `);

/** @param by the operator; null if a program has recorded its own processor */
export const recordProcessor = async (
  transaction: DatabaseTransactionConnection,
  processor: LiveProcessor,
  by: string | null,
): Promise<void> => {
  const account = processor.name === "stripe" ? processor.account : null;
  await transaction.query(sql.typeAlias("void")`
    UPDATE deployment
    SET
      processor = ${processor.name},
      stripe_account_id = ${account?.id ?? null},
      stripe_livemode = ${account?.isLive ?? null},
      processor_recorded_at = now(),
      processor_recorded_by = ${by}
  `);
};
