import type { BulkPace } from "../../db/bulkWork/createBulkPace.ts";

/** Returns what a progress bar adds while a command yields. */
export const yieldingNote = ({ isYielding }: Pick<BulkPace, "isYielding">): string =>
  isYielding() ? ", yielding to clients" : "";
