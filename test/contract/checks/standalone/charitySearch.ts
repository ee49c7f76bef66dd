import { checksOf } from "../../check.ts";
import type { Check } from "../../check.ts";
import { expect, queriesOf, rejects } from "../../expectations.ts";
import { digitsOf, donationsOf, EIN } from "./donations.ts";

const PATH = "/charities/search";
const { contract } = checksOf(`GET ${PATH}`, donationsOf);

export const charitySearchChecks: readonly Check[] = [
  contract("without parameters it returns the first page of 20", async (t) => {
    const { charities, total_items: items, total_pages: pages } = await t.search();
    expect.equal("charities", charities.length, Math.min(20, items));
    expect.equal("total_pages", pages, Math.ceil(items / 20));
  }),
  contract("a name finds charities that have it", async (t) => {
    const { charities, total_items: items } = await t.search({ name: "red cross" });
    expect.that(charities.length > 0, "charities must be found", charities);
    expect.that(items >= charities.length, "total_items counts them", items);
    const names = charities.map(({ name }) => name);
    expect.that(/red cross/iu.test(names.join("\n")), "one has the name", names);
  }),
  contract("an EIN finds its charity", async (t) => {
    const { charities, total_items: items } = await t.search({ ein: EIN });
    expect.equal("total_items", items, charities.length);
    expect.that(charities.length > 0, "the charity must be found", items);
    for (const charity of charities) {
      expect.equal("ein", digitsOf(charity.ein), digitsOf(EIN));
    }
  }),
  contract("page_size limits a page", async (t) => {
    for (const size of [1, 2, 19, 20]) {
      const result = await t.search({ page_size: String(size) });
      expect.equal("charities", result.charities.length, Math.min(size, result.total_items));
      expect.equal("total_pages", result.total_pages, Math.ceil(result.total_items / size));
    }
  }),
  contract("pages have every charity once, and a page after the last has none", async (t) => {
    const parameters = { name: "red", page_size: "3" };
    const first = await t.search(parameters);
    const ids: string[] = [];
    const readPages = Math.min(first.total_pages, 12);
    for (let page = 1; page <= readPages; page += 1) {
      const { charities } = await t.search({ ...parameters, page: String(page) });
      const what = `page ${page} of ${first.total_pages} has charities`;
      expect.that(charities.length > 0, what, charities);
      ids.push(...charities.map(({ nonprofit_id: id }) => id));
    }
    expect.equal("distinct charities", new Set(ids).size, ids.length);
    if (readPages === first.total_pages) {
      expect.equal("charities", ids.length, first.total_items);
    }
    const beyond = await t.search({ ...parameters, page: String(first.total_pages + 1) });
    expect.equal("charities after the last page", beyond.charities, []);
    expect.equal("total_items", beyond.total_items, first.total_items);
  }),
  contract(
    "a page or page_size that is no positive integer is a 400",
    rejects(PATH, { queries: queriesOf(["page", "page_size"], ["0", "-1", "1.5", "x", "1e1x"]) }),
  ),
  contract("a page never has more than 20 charities", async (t) => {
    const answer = await t.service.organization().get(PATH, { page_size: "21" });
    expect.status(answer, 200, 400);
    if (answer.status === 200) {
      const { charities } = await t.search({ page_size: "21" });
      expect.that(charities.length <= 20, "at most 20", answer.text);
    }
  }),
  contract("a name that no charity has finds nothing", async (t) => {
    const found = await t.search({ name: "qzxv jkwq vvxz" });
    expect.fields(found, { charities: [], total_items: 0 });
    expect.that(found.total_pages <= 1, "no further page", found.total_pages);
  }),
];
