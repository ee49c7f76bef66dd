import { z } from "zod";
import { ACCOUNT_TYPES, KINDS, MODES } from "./owner.rules.ts";

export const accountTypeColumn = z.enum(ACCOUNT_TYPES);

export const modeColumn = z.enum(MODES);

export const kindColumn = z.enum(KINDS);

export const ownerColumns = { accountId: z.uuid(), mode: modeColumn, kind: kindColumn };
