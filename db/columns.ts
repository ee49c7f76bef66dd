import { z } from "zod";
import { ACCOUNT_TYPES, KINDS, MODES } from "../domain/accounts/accounts.ts";

/** An `int8` column whose values are safe integers, by a constraint. */
export const safeInteger = z.bigint().transform(Number).pipe(z.int());

export const accountTypeColumn = z.enum(ACCOUNT_TYPES);

export const modeColumn = z.enum(MODES);

export const kindColumn = z.enum(KINDS);

/** The columns that identify an owner. */
export const ownerColumns = { accountId: z.uuid(), mode: modeColumn, kind: kindColumn };
