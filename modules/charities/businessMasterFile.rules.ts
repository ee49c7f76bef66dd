import { invalidRequest } from "../../runtime/errors.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { parseEin } from "./charities.rules.ts";

/*
 * The IRS's Exempt Organizations Business Master File: comma-separated, one record a line, with a header
 * (irs.gov/pub/irs-soi/eo_info.pdf). ICO and STREET are not read, because they name and locate private individuals.
 */

const COLUMNS = {
  ein: "EIN",
  name: "NAME",
  sort_name: "SORT_NAME",
  city: "CITY",
  state: "STATE",
  ntee: "NTEE_CD",
  affiliation: "AFFILIATION",
  subsection: "SUBSECTION",
  deductibility: "DEDUCTIBILITY",
  income_code: "INCOME_CD",
} as const;

export type MasterFileColumn = keyof typeof COLUMNS;

// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- Object.keys has no better type.
export const MASTER_FILE_COLUMNS = Object.keys(COLUMNS) as readonly MasterFileColumn[];

/** The IRS uses 70. An index of words cannot hold one of thousands of letters. */
const LONGEST_NAME = 500;

export type MasterFileRecord = Readonly<
  Record<Exclude<MasterFileColumn, "income_code">, string>
> & { readonly income_code: number };

/** Parses a line; a text says what is wrong with it. */
export type ReadMasterFileLine = (line: string) => MasterFileRecord | string;

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

/**
 * Returns what parses the lines that follow a file's first line.
 * @throws DomainError request_invalid if that is not the header of a Business Master File
 */
export const masterFileReader = (file: string, header: string): ReadMasterFileLine => {
  const names = (splitLine(header.replace(/^\uFEFF/u, "")) ?? []).map((name) => name.trim());
  if (!Object.values(COLUMNS).every((name) => names.includes(name))) {
    throw invalidRequest(
      `${file} cannot be imported: the first line is not the header of a Business Master File`,
    );
  }
  return (line) => {
    const fields = splitLine(line);
    if (fields?.length !== names.length) {
      return fields
        ? `${counted(fields.length, "column")} instead of ${names.length}`
        : "unbalanced quotes";
    }
    const field = (column: MasterFileColumn): string =>
      fields[names.indexOf(COLUMNS[column])]?.trim() ?? "";
    const ein = parseEin(field("ein"));
    if (ein === null) {
      return "the EIN is not nine digits";
    }
    const [name, sortName] = [field("name"), field("sort_name")];
    if (name === "") {
      return "no name";
    }
    if (name.length > LONGEST_NAME || sortName.length > LONGEST_NAME) {
      return `a name has more than ${LONGEST_NAME} characters`;
    }
    if (line.includes("\0") || line.includes("\uFFFD")) {
      return "not well-formed text";
    }
    return {
      ein,
      name,
      sort_name: sortName,
      city: field("city"),
      state: field("state"),
      ntee: field("ntee"),
      affiliation: field("affiliation"),
      subsection: field("subsection"),
      deductibility: field("deductibility"),
      income_code: /^\d$/u.test(field("income_code")) ? Number(field("income_code")) : 0,
    };
  };
};
