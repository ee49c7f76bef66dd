import type { FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { RecordTable } from "../records/ownedRecords.sql.ts";
import { sql } from "../../db/sql.ts";

export const customerRow = {
  customerName: z.string().nullable(),
  customerEmail: z.string().nullable(),
  customerId: z.string().nullable(),
  orderId: z.string().nullable(),
};

/** The customer and the order of a store's record. */
export const customerColumns = (table: RecordTable): FragmentSqlToken => {
  const column = (name: string) => sql.identifier([table, name]);
  return sql.fragment`
    ${column("customer_name")} AS "customerName",
    ${column("customer_email")} AS "customerEmail",
    ${column("customer_id")} AS "customerId",
    ${column("order_id")} AS "orderId"
  `;
};
