import { z } from "zod";
import { KINDS, MODES } from "../domain/accounts.ts";

/** An `int8` that a constraint keeps within what a number carries exactly. */
export const safeInteger = z.bigint().transform(Number).pipe(z.int());

export const modeColumn = z.enum(MODES);

export const kindColumn = z.enum(KINDS);

/** What names a stream of usage. */
export const streamColumns = { accountId: z.uuid(), mode: modeColumn, meter: kindColumn };
