import { z } from "zod";
import { ACCOUNT_TYPES, KINDS, MODES } from "../domain/accounts/accounts.ts";
import { ORDER_STAGES, TIMELINE_SHAPES } from "../domain/planting/order.ts";
import { METER_EVENT_STATES } from "../domain/billing/meterEvents.ts";
import { PROCESSORS } from "../domain/billing/usage.ts";

/** An `int8` column whose values are safe integers, by a constraint. */
export const safeInteger = z.bigint().transform(Number).pipe(z.int());

export const accountTypeColumn = z.enum(ACCOUNT_TYPES);

export const modeColumn = z.enum(MODES);

export const kindColumn = z.enum(KINDS);

export const processorColumn = z.enum(PROCESSORS);

export const meterEventStateColumn = z.enum(METER_EVENT_STATES);

export const timelineColumn = z.enum(TIMELINE_SHAPES);

export const orderStageColumn = z.enum(ORDER_STAGES);

/** The columns that identify a usage stream. */
export const streamColumns = { accountId: z.uuid(), mode: modeColumn, meter: kindColumn };
