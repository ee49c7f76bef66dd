import { findCharityRecord } from "../../../db/charities/charities.ts";
import { formatEin } from "../../../domain/charities/charities.ts";
import type { CliContext } from "../../context.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";
import { printJson, printRecord } from "../../output/print.ts";
import type { JsonOption } from "../../output/print.ts";

export const showCharity = async (
  { io, connections }: CliContext,
  ein: string,
  { json }: JsonOption,
): Promise<void> => {
  const charity = await findCharityRecord(await connections.database(), ein);
  if (!charity) {
    throw new CommandError(
      EXIT.notFound,
      `EIN ${formatEin(ein)} not found in the catalogue. See impact charity search.`,
    );
  }
  if (json) {
    printJson(io, {
      ein: formatEin(charity.ein),
      name: charity.name,
      sort_name: charity.sortName,
      known_as: charity.knownAs,
      website: charity.website,
      icon_url: charity.iconUrl,
      city: charity.city,
      state: charity.state,
      ntee: charity.ntee,
      affiliation: charity.affiliation,
      eligible: charity.eligible,
      subsection: charity.subsection,
      deductibility: charity.deductibility,
      extracted_on: charity.extractedOn,
    });
    return;
  }
  printRecord(io, {
    EIN: formatEin(charity.ein),
    name: charity.name,
    "sort name": charity.sortName,
    "known as": charity.knownAs,
    website: charity.website,
    "icon URL": charity.iconUrl,
    city: charity.city,
    state: charity.state,
    "NTEE code": charity.ntee,
    "eligible for donations": charity.eligible,
    "subsection of 501(c)": charity.subsection,
    "deductibility code": charity.deductibility,
    "extract date": charity.extractedOn,
  });
};
