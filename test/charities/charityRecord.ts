import type { MasterFileRecord } from "../../modules/charities/businessMasterFile.rules.ts";

/** The record of an invented charity, but for its EIN and name. */
export const CHARITY_RECORD: MasterFileRecord = {
  ein: "",
  name: "",
  sortName: "",
  city: "SPRINGFIELD",
  state: "VT",
  ntee: "K31",
  affiliation: "3",
  subsection: "03",
  deductibility: "1",
  incomeCode: 0,
};
