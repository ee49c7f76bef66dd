import { z } from "zod";
import { safeInteger } from "./columns.ts";

/** How many rows a batch deleted, and the time of the last one in their order. */
export const deletedRow = z.strictObject({ deleted: safeInteger, last: z.date().nullable() });
export type Deleted = Readonly<z.output<typeof deletedRow>>;
