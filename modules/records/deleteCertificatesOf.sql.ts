import type { DatabaseTransactionConnection } from "slonik";
import { sql } from "../../db/sql.ts";

/** Deletes the certificates of records, and leaves the records out of the certificates of orders. */
export const deleteCertificatesOf = async (
  transaction: DatabaseTransactionConnection,
  recordIds: readonly string[],
): Promise<void> => {
  for (const table of ["certificate_item", "certificate"]) {
    await transaction.query(sql.typeAlias("void")`
      DELETE FROM ${sql.identifier([table])} WHERE record_id = ANY(${sql.array(recordIds, "uuid")})
    `);
  }
};
