import type { ExecutionContext } from "ava";
import { z } from "zod";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { linesOf, setUpImport } from "../history/importScene.ts";
import type { DatabaseContext } from "../support/database.ts";
import { testWithDatabase } from "../support/database.ts";

const test = testWithDatabase();

const setUp = async (t: ExecutionContext<DatabaseContext>) => {
  const { apiKeyProd, apiKeyTest, importText } = await setUpImport(t);
  const { call } = await startStandaloneApi(t, { db: t.context.db });
  /** Returns a donation's certificate, as JSON and as a page with single spaces. */
  const certificateOf = async (key: string, id: string) => {
    // Another server has an empty cache.
    const server = await startStandaloneApi(t, { db: t.context.db });
    const { body } = await server.call("GET", `/certificate_url?id=${id}`, { key });
    const url = String(body["certificate_url"]);
    return {
      json: z.looseObject({}).parse(await (await fetch(`${url}.json`)).json()),
      page: (await (await fetch(url)).text()).replaceAll(/\s+/gu, " "),
    };
  };
  return { apiKeyProd, apiKeyTest, importText, call, certificateOf };
};

const OCEANA = { amount_cents: 2550, ein: "51-0401308" };
const LOOKED_UP = /The charity was looked up when the donation was recorded\./u;

test.serial(
  "a certificate names the charity that was looked up, and says if the donation was refunded",
  async (t) => {
    const { apiKeyTest: key, call, certificateOf } = await setUp(t);
    const item = { ...OCEANA, charity_name: "American Red Cross", attribution: "spring" };
    await call("POST", "/charities/subscribe", { key });
    const single = await call("POST", "/charities/donate", { key, body: item });
    t.like(single.body, { charity_name: "American Red Cross" });
    const batch = await call("POST", "/charities/donate/batch", { key, body: { items: [item] } });
    const ids = [
      ...JSON.stringify([single.body, batch.body]).matchAll(/"donation_id":"([^"]+)"/gu),
    ];
    t.is(ids.length, 2);
    for (const [, id = ""] of ids) {
      const { json, page } = await certificateOf(key, id);
      t.like(json, {
        type: "donation",
        state: "registered",
        test: true,
        amount_cents: 2550,
        charity: { name: "Oceana", ein: "51-0401308", looked_up: true },
      });
      t.regex(page, /\$25\.50<\/span> <span class="what">donation to Oceana registered/u);
      t.regex(page, /\$25\.50 to <bdi>Oceana<\/bdi> on/u);
      t.regex(page, LOOKED_UP);
      t.notRegex(page, /Red Cross|spring/u);
      t.is((await call("POST", "/refund/donations", { key, body: { id } })).status, 200);
      const refunded = await certificateOf(key, id);
      t.like(refunded.json, { state: "refunded" });
      t.regex(refunded.page, /no longer counts/u);
    }
  },
);

test.serial("a blank name of a charity is the same as none", async (t) => {
  const { apiKeyTest: key, call } = await setUp(t);
  const body = { ...OCEANA, charity_name: " \t" };
  t.like((await call("POST", "/charities/donate", { key, body })).body, { charity_name: "Oceana" });
});

test.serial(
  "an imported donation's charity was not looked up, and only a refund here has a date",
  async (t) => {
    const { apiKeyProd: key, importText, call, certificateOf } = await setUp(t);
    const line = {
      ...OCEANA,
      kind: "donation",
      charity_name: "Oceana, as the old system wrote it",
      created_at: "2024-01-15T10:00:00Z",
    };
    const [before, later, here] = [
      { ...line, id: "before" },
      { ...line, id: "later" },
      { ...line, id: "here" },
    ];
    const run = await importText(linesOf({ ...before, refunded: true }, later, here));
    t.is(run.exitCode, 0, run.stderr);
    const { json: imported, page: unproven } = await certificateOf(key, "here");
    t.like(imported, { charity: { name: line.charity_name, looked_up: false } });
    t.regex(unproven, /An earlier system recorded the donation and named the charity\./u);
    t.notRegex(unproven, LOOKED_UP);

    await importText(linesOf({ ...later, refunded: true }));
    t.is((await call("POST", "/refund/donations", { key, body: { id: "here" } })).status, 200);
    for (const id of ["before", "later"]) {
      const { json, page } = await certificateOf(key, id);
      t.like(json, { state: "refunded" });
      t.regex(page, /<dt>Refunded<\/dt> <dd>Refunded\.<\/dd>/u);
      t.regex(page, /This certificate no longer counts\./u);
    }
    const { page } = await certificateOf(key, "here");
    t.regex(page, /<dd>On \w{3}.\d+,.\d{4}\.<\/dd>/u);
  },
);
