import { formatEin } from "../../../domain/charities/charities.ts";
import { searchCatalogue } from "../../../services/charities/searchCharities.ts";
import type { CliContext } from "../../context.ts";
import { say } from "../../io.ts";
import { printJson, printRows } from "../../output/print.ts";

const PAGE_SIZE = 20;

export type SearchOptions = { readonly page: number; readonly json?: true };

export const searchCharities = async (
  { io, connections }: CliContext,
  name: string,
  { page, json }: SearchOptions,
): Promise<void> => {
  const db = await connections.database();
  const { items, totalItems } = await searchCatalogue({ db }, name, {
    page,
    pageSize: PAGE_SIZE,
  });
  const charities = items.map((charity) => ({
    nonprofit_id: charity.nonprofitId,
    name: charity.name,
    ein: charity.ein && formatEin(charity.ein),
    description: charity.description,
    website: charity.website,
    icon_url: charity.iconUrl,
  }));
  if (json) {
    printJson(io, { total_items: totalItems, charities });
    return;
  }
  const total = totalItems.toLocaleString("en-US");
  if (charities.length === 0) {
    say(
      io,
      totalItems === 0 ? "No charities found." : `No charities on page ${page}; ${total} found.`,
    );
    return;
  }
  printRows(io, charities, {
    EIN: (charity) => charity.ein,
    name: (charity) => charity.name,
    description: (charity) => charity.description,
    website: (charity) => charity.website,
  });
  say(io, `${total} found; page ${page} of ${Math.ceil(totalItems / PAGE_SIZE)}.`);
};
