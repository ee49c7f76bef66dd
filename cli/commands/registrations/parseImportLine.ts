import { z } from "zod";
import { KINDS } from "../../../domain/accounts/accounts.ts";
import { describeIssues } from "../../../domain/describeIssues.ts";
import { count, metadata } from "../../../domain/fields.ts";
import type { ImportedRegistration } from "../../../domain/registrations/importedRegistration.ts";
import {
  attribution,
  findFractionalCountProblem,
  fractionalCount,
  idempotencyKey,
} from "../../../domain/registrations/registrationFields.ts";

const CREATED_AT_MUST_BE = "must be a time with an offset, such as 2025-06-01T12:00:00Z";

const line = z.strictObject(
  {
    kind: z.enum(KINDS, { error: "must be tree or bottle" }),
    count: count(),
    created_at: z.iso
      .datetime({ offset: true, error: CREATED_AT_MUST_BE })
      .transform((text) => new Date(text))
      .refine((time) => time.getTime() >= 0, "must not be before 1970"),
    fractional_count: fractionalCount().optional(),
    attribution: attribution().optional(),
    metadata: metadata().optional(),
    idempotency_key: idempotencyKey().optional(),
  },
  {
    error: (issue) =>
      issue.code === "invalid_type" ? "the line must be a JSON object" : undefined,
  },
);

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

/** Parses one line of an import, or returns all that is wrong with it. */
export const parseImportLine = (
  text: string,
  { now, fractionalCounting }: { readonly now: Date; readonly fractionalCounting: boolean },
): { readonly registration: ImportedRegistration } | { readonly problem: string } => {
  const value = parseJson(text);
  if (value === undefined) {
    return { problem: "not valid JSON" };
  }
  const result = line.safeParse(value);
  if (!result.success) {
    return { problem: describeIssues(result.error.issues, "field") };
  }
  const { data } = result;
  if (data.created_at > now) {
    return { problem: "created_at: must not be in the future" };
  }
  const problem = findFractionalCountProblem(data.fractional_count, { fractionalCounting });
  if (problem !== null) {
    return { problem };
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
