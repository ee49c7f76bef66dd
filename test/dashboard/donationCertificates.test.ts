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
    const { certificate_url: url } = z.object({ certificate_url: z.url() }).parse(body);
    return {
      json: z.looseObject({}).parse(await (await fetch(`${url}.json`)).json()),
      page: (await (await fetch(url)).text()).replaceAll(/\s+/gu, " "),
    };
  };
  return { apiKeyProd, apiKeyTest, importText, call, certificateOf };
};

const OCEANA = { amount_cents: 100, ein: "51-0401308" };
const LOOKED_UP = /The charity was looked up when the donation was recorded\./u;

test.serial(
  "a certificate names the charity that was looked up, whatever name the client gave it",
  async (t) => {
    const { apiKeyTest: key, call, certificateOf } = await setUp(t);
    const donate = async (name: string) => {
      const { status, body } = await call("POST", "/charities/donate", {
        key,
        body: { ...OCEANA, charity_name: name },
      });
      t.is(status, 200);
      return z.object({ donation_id: z.string(), charity_name: z.string() }).parse(body);
    };
    const renamed = await donate("American Red Cross");
    t.is(renamed.charity_name, "American Red Cross");
    const { json, page } = await certificateOf(key, renamed.donation_id);
    t.like(json, { charity: { name: "Oceana", ein: "51-0401308", looked_up: true } });
    t.regex(page, /donation to Oceana registered/u);
    t.regex(page, /\$1\.00 to <bdi>Oceana<\/bdi> on/u);
    t.regex(page, LOOKED_UP);
    t.notRegex(page, /Red Cross/u);

    const batch = await call("POST", "/charities/donate/batch", {
      key,
      body: { items: [{ ...OCEANA, charity_name: "American Red Cross" }] },
    });
    const { results } = z
      .object({
        results: z.tuple([z.object({ body: z.looseObject({ donation_id: z.string() }) })]),
      })
      .parse(batch.body);
    const ofBatch = await certificateOf(key, results[0].body.donation_id);
    t.like(ofBatch.json, { charity: { name: "Oceana" } });
  },
);

test.serial("a blank name of a charity is the same as none", async (t) => {
  const { apiKeyTest: key, call } = await setUp(t);
  const body = { ...OCEANA, charity_name: " \t" };
  t.like((await call("POST", "/charities/donate", { key, body })).body, { charity_name: "Oceana" });
});

test.serial("the charity of an imported donation was not looked up", async (t) => {
  const { apiKeyProd: key, importText, certificateOf } = await setUp(t);
  const line = {
    ...OCEANA,
    kind: "donation",
    id: "old-1",
    charity_name: "Oceana, as the old system wrote it",
    created_at: "2024-01-15T10:00:00Z",
  };
  const run = await importText(linesOf(line));
  t.is(run.exitCode, 0, run.stderr);
  const { json, page } = await certificateOf(key, "old-1");
  t.like(json, { charity: { name: line.charity_name, looked_up: false } });
  t.regex(page, /An earlier system recorded the donation and named the charity\./u);
  t.notRegex(page, LOOKED_UP);
});

test.serial("a certificate has the date of a refund only if it was made here", async (t) => {
  const { apiKeyProd: key, importText, call, certificateOf } = await setUp(t);
  const line = {
    ...OCEANA,
    kind: "donation",
    charity_name: "Oceana",
    created_at: "2024-01-15T10:00:00Z",
  };
  const before = { ...line, id: "before" };
  const later = { ...line, id: "later" };
  const here = { ...line, id: "here" };
  await importText(linesOf({ ...before, refunded: true }, later, here));
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
});
