import type { CommonQueryMethods } from "slonik";
import { DomainError } from "../../../runtime/errors.rules.ts";
import { findDifference } from "./usageDifferences.sql.ts";
import type { UsageDifference } from "./usageDifferences.sql.ts";

/** @throws DomainError record_not_found */
export const getDifference = async (
  db: CommonQueryMethods,
  id: bigint,
): Promise<UsageDifference> => {
  const difference = await findDifference(db, id);
  if (!difference) {
    throw new DomainError("record_not_found", `D${id} not found; see \`impact usage list\``);
  }
  return difference;
};
