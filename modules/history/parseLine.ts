import { z } from "zod";
import { describeIssues, messageOfIssue } from "../../runtime/describeIssues.rules.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
import type { ImportedEvidence } from "./importedEvidence.rules.ts";
import { donationLine, recordOf, registrationLine } from "./importedRecords.rules.ts";
import type { ImportedRecord, ParseOptions } from "./importedRecords.rules.ts";
import { evidenceLine, evidenceOf } from "./evidenceOf.ts";

type Parsed =
  | { readonly record: ImportedRecord }
  | { readonly evidence: ImportedEvidence }
  | { readonly problem: string };

const anyLine = z.discriminatedUnion("kind", [registrationLine, donationLine, evidenceLine]);

/** Other systems write null for what was not given. */
const withoutNulls = (given: object): object =>
  Object.values(given).includes(null)
    ? Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null))
    : given;

const parseFields = (value: unknown, options: ParseOptions): Parsed => {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return { problem: "the line must be a JSON object" };
  }
  const fields = { kind: options.kind, ...withoutNulls(value) };
  const parsed = anyLine.safeParse(fields, { error: messageOfIssue });
  if (!parsed.success) {
    return { problem: describeIssues(parsed.error.issues, "field") };
  }
  const line = parsed.data;
  try {
    return line.kind === "evidence"
      ? { evidence: evidenceOf(line, options) }
      : { record: recordOf(line, options) };
  } catch (error) {
    if (error instanceof DomainError) {
      return { problem: error.message };
    }
    throw error;
  }
};

export const parseJsonLine = (line: string, options: ParseOptions): Parsed => {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return { problem: "not valid JSON" };
  }
  return parseFields(value, options);
};

/** The columns whose cells are JSON; the others are text. */
const JSON_COLUMNS: ReadonlySet<string> = new Set([
  "count",
  "fractional_count",
  "refunded_count",
  "amount",
  "amount_cents",
  "unit_price_cents",
  "refunded",
  "metadata",
]);

/** Returns the value of a cell. A cell that is no JSON stays text, which the field then rejects. */
const valueOf = (column: string, cell: string): unknown => {
  if (!JSON_COLUMNS.has(column)) {
    return cell;
  }
  try {
    // Spreadsheets write TRUE.
    return JSON.parse(column === "metadata" ? cell : cell.toLowerCase());
  } catch {
    return cell;
  }
};

/** Parses the cells of one row of CSV by their columns. Returns the row as JSON, too. */
export const parseCells = (
  cells: Readonly<Record<string, string>>,
  options: ParseOptions,
): Parsed & { readonly text: string } => {
  const fields = Object.fromEntries(
    Object.entries(cells).map(([column, cell]) => [column, valueOf(column, cell)]),
  );
  return { text: JSON.stringify(fields), ...parseFields(fields, options) };
};
