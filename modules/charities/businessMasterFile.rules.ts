import { counted } from "../../runtime/counted.rules.ts";
import type { Ein } from "./charities.rules.ts";
import { parseEin } from "./charities.rules.ts";

/*
 * The IRS's Exempt Organizations Business Master File: comma-separated, one record a line, 28 columns
 * (irs.gov/pub/irs-soi/eo_info.pdf). ICO and STREET are not read, because they name and locate private individuals.
 */

const COLUMNS = [
  "EIN",
  "NAME",
  "ICO",
  "STREET",
  "CITY",
  "STATE",
  "ZIP",
  "GROUP",
  "SUBSECTION",
  "AFFILIATION",
  "CLASSIFICATION",
  "RULING",
  "DEDUCTIBILITY",
  "FOUNDATION",
  "ACTIVITY",
  "ORGANIZATION",
  "STATUS",
  "TAX_PERIOD",
  "ASSET_CD",
  "INCOME_CD",
  "FILING_REQ_CD",
  "PF_FILING_REQ_CD",
  "ACCT_PD",
  "ASSET_AMT",
  "INCOME_AMT",
  "REVENUE_AMT",
  "NTEE_CD",
  "SORT_NAME",
] as const;

/** The IRS uses 70. An index of words cannot hold one of thousands of letters. */
const LONGEST_NAME = 500;

/** The columns of a record that the catalogue stores. */
export type MasterFileRecord = {
  readonly ein: Ein;
  readonly name: string;
  readonly sortName: string;
  readonly city: string;
  readonly state: string;
  readonly ntee: string;
  readonly affiliation: string;
  readonly subsection: string;
  readonly deductibility: string;
  readonly incomeCode: number;
};

const FIELD = /(?:^|,)(?:"((?:[^"]|"")*)"|([^",]*))(?=,|$)/gy;

/** Returns the fields of a line, or null if its quotes are unbalanced. Most lines have no quotes. */
const splitLine = (line: string): readonly string[] | null => {
  if (!line.includes('"')) {
    return line.split(",");
  }
  const fields: string[] = [];
  let end = 0;
  for (const match of line.matchAll(FIELD)) {
    fields.push(match[1]?.replaceAll('""', '"') ?? match[2] ?? "");
    end = match.index + match[0].length;
  }
  return end === line.length ? fields : null;
};

/** Whether a file's first line is that of a Business Master File. */
export const isMasterFileHeader = (line: string): boolean => {
  const names = splitLine(line.replace(/^\uFEFF/u, "")) ?? [];
  return COLUMNS.every((name, index) => names[index]?.trim() === name);
};

/** Parses one line; a string says what is wrong with it. */
export const readMasterFileLine = (line: string): MasterFileRecord | string => {
  const fields = splitLine(line);
  if (fields?.length !== COLUMNS.length) {
    return fields
      ? `${counted(fields.length, "column")} instead of ${COLUMNS.length}`
      : "unbalanced quotes";
  }
  const field = (name: (typeof COLUMNS)[number]): string =>
    fields[COLUMNS.indexOf(name)]?.trim() ?? "";
  const ein = parseEin(field("EIN"));
  if (ein === null) {
    return "the EIN is not nine digits";
  }
  if (field("NAME") === "") {
    return "no name";
  }
  if (field("NAME").length > LONGEST_NAME || field("SORT_NAME").length > LONGEST_NAME) {
    return `a name has more than ${LONGEST_NAME} characters`;
  }
  if (line.includes("\0") || line.includes("\uFFFD")) {
    return "not well-formed text";
  }
  return {
    ein,
    name: field("NAME"),
    sortName: field("SORT_NAME"),
    city: field("CITY"),
    state: field("STATE"),
    ntee: field("NTEE_CD"),
    affiliation: field("AFFILIATION"),
    subsection: field("SUBSECTION"),
    deductibility: field("DEDUCTIBILITY"),
    incomeCode: /^\d$/u.test(field("INCOME_CD")) ? Number(field("INCOME_CD")) : 0,
  };
};
