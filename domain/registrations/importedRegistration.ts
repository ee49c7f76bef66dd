import { z } from "zod";
import { KINDS } from "../accounts/accounts.ts";
import type { Kind } from "../accounts/accounts.ts";
import { describeIssues } from "../describeIssues.ts";
import { count, metadata } from "../fields.ts";
import {
  attribution,
  findFractionalCountFault,
  fractionalCount,
  idempotencyKey,
} from "./registrationFields.ts";
import type { Registration } from "./registrations.ts";

/** A registration that another system recorded, as it is taken over. */
export type ImportedRegistration = { readonly kind: Kind } & Pick<
  Registration,
  "count" | "fractionalCount" | "createdAt" | "idempotencyKey" | "attribution" | "metadata"
>;

const INSTANT_MUST_BE = "must be an instant with its offset, such as 2025-06-01T12:00:00Z";

const line = z.strictObject(
  {
    kind: z.enum(KINDS, { error: "must be tree or bottle" }),
    count: count(),
    created_at: z.iso
      .datetime({ offset: true, error: INSTANT_MUST_BE })
      .transform((text) => new Date(text))
      .refine((instant) => instant.getTime() >= 0, "must not be before 1970"),
    fractional_count: fractionalCount().optional(),
    attribution: attribution().optional(),
    metadata: metadata().optional(),
    idempotency_key: idempotencyKey().optional(),
  },
  {
    error: (issue) => (issue.code === "invalid_type" ? "a line must be a JSON object" : undefined),
  },
);

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

/** Reads one line of an import; what is wrong with it is told in words. */
export const parseImportedRegistration = (
  text: string,
  { now, fractionalCounting }: { readonly now: Date; readonly fractionalCounting: boolean },
): { readonly registration: ImportedRegistration } | { readonly fault: string } => {
  const value = parseJson(text);
  if (value === undefined) {
    return { fault: "not valid JSON" };
  }
  const result = line.safeParse(value);
  if (!result.success) {
    return { fault: describeIssues(result.error.issues, "field") };
  }
  const { data } = result;
  if (data.created_at > now) {
    return { fault: "created_at: must not be in the future" };
  }
  const fault = findFractionalCountFault(data.fractional_count, { fractionalCounting });
  if (fault !== null) {
    return { fault };
  }
  return {
    registration: {
      kind: data.kind,
      count: data.count,
      fractionalCount: data.fractional_count ?? 0,
      createdAt: data.created_at,
      idempotencyKey: data.idempotency_key ?? null,
      attribution: data.attribution ?? "",
      metadata: data.metadata ?? {},
    },
  };
};

/** Sorts the names of every object, so that equal content makes equal JSON. The depth was limited when it was read. */
const sortNames = (_name: string, value: unknown): unknown =>
  typeof value === "object" && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)))
    : value;

/** What makes two lines the same: the idempotency key, else all that they say, however it is written. */
export const contentOf = (registration: ImportedRegistration): string => {
  const { kind, idempotencyKey: key, count: units, createdAt } = registration;
  return key === null
    ? JSON.stringify(
        [
          kind,
          units,
          createdAt.getTime(),
          registration.fractionalCount,
          registration.attribution,
          registration.metadata,
        ],
        sortNames,
      )
    : JSON.stringify([kind, key]);
};
