import { utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { findCharityRecord } from "../../modules/charities/catalogue.sql.ts";
import { impactOf, readJson } from "../cli/runImpact.ts";
import type { DatabaseTest } from "../support/database.ts";
import { makeTestFolder } from "../support/makeTestFolder.ts";
import type { MasterFileRecord } from "../../modules/charities/businessMasterFile.rules.ts";

const HEADER =
  "EIN,NAME,ICO,STREET,CITY,STATE,ZIP,GROUP,SUBSECTION,AFFILIATION,CLASSIFICATION,RULING,DEDUCTIBILITY,FOUNDATION," +
  "ACTIVITY,ORGANIZATION,STATUS,TAX_PERIOD,ASSET_CD,INCOME_CD,FILING_REQ_CD,PF_FILING_REQ_CD,ACCT_PD,ASSET_AMT," +
  "INCOME_AMT,REVENUE_AMT,NTEE_CD,SORT_NAME";

export const contentOf = (...lines: readonly string[]): string => [HEADER, ...lines].join("\n");

export const lineOf = (ein: string, name: string, subsection = "03"): string =>
  `${ein},${name},% SOMEBODY,1 MAIN ST,NOWHERE,VT,05000-0000,0000,${subsection},3,1000,199901,1,15,0,1,01,202412,4,5,01,0,12,1,2,3,D20,`;

/** A folder for extracts, and the commands that import them and look charities up. */
export const stageCatalogue = async (t: DatabaseTest) => {
  const folder = await makeTestFolder(t);
  const run = impactOf(t, {}, "charity");
  return {
    run,
    write: async (name: string, content: string | Buffer): Promise<string> => {
      const path = join(folder, name);
      await writeFile(path, content);
      await utimes(path, new Date("2026-04-13"), new Date("2026-04-13"));
      return path;
    },
    load: async (...args: readonly string[]) => {
      const done = await run.ok("import", ...args, "--json");
      return { counts: readJson(done), stderr: done.stderr };
    },
    read: (ein: string) => findCharityRecord(t.context.db, ein),
  };
};

/** The record of an invented charity, but for its EIN and name. */
export const CHARITY_RECORD: MasterFileRecord = {
  ein: "",
  name: "",
  sort_name: "",
  city: "SPRINGFIELD",
  state: "VT",
  ntee: "K31",
  affiliation: "3",
  subsection: "03",
  deductibility: "1",
  income_code: 0,
};
