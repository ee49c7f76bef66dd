import { describeIssues, messageOfIssue, mustBeOneOf } from "../../runtime/describeIssues.rules.ts";
import type { ImportedEvidence } from "./importedEvidence.rules.ts";
import {
  donationLine,
  IMPORT_KINDS,
  LINE_KINDS,
  recordOf,
  registrationLine,
} from "./importedRecords.rules.ts";
import type { ImportedRecord, ParseOptions } from "./importedRecords.rules.ts";
import { parseEvidence } from "./parseEvidence.ts";

type Parsed =
  | { readonly record: ImportedRecord }
  | { readonly evidence: ImportedEvidence }
  | { readonly problem: string };

const KIND_MUST_BE = `kind: ${mustBeOneOf(LINE_KINDS)}`;

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Removes fields that are null, which other systems write for what was not given. */
const withoutNulls = (given: Readonly<Record<string, unknown>>): Record<string, unknown> =>
  Object.values(given).includes(null)
    ? Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null))
    : { ...given };

const parseRecord = (value: unknown, options: ParseOptions): Parsed => {
  if (!isObject(value)) {
    return { problem: "the line must be a JSON object" };
  }
  const fields = withoutNulls(value);
  fields["kind"] ??= options.kind;
  if (fields["kind"] === "evidence") {
    return parseEvidence(fields, options);
  }
  if (!IMPORT_KINDS.some((kind) => kind === fields["kind"])) {
    return { problem: KIND_MUST_BE };
  }
  const schema = fields["kind"] === "donation" ? donationLine : registrationLine;
  const parsed = schema.safeParse(fields, { error: messageOfIssue });
  if (!parsed.success) {
    return { problem: describeIssues(parsed.error.issues, "field") };
  }
  const record = recordOf(parsed.data, options);
  return typeof record === "string" ? { problem: record } : { record };
};

export const parseJsonLine = (line: string, options: ParseOptions): Parsed => {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return { problem: "not valid JSON" };
  }
  return parseRecord(value, options);
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
  return { text: JSON.stringify(fields), ...parseRecord(fields, options) };
};
