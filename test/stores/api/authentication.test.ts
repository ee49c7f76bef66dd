import { updateStore } from "../../../modules/stores/stores.sql.ts";
import { revokeApiKey, listApiKeys } from "../../../modules/accounts/apiKeys.sql.ts";
import { impactOf } from "../../cli/runImpact.ts";
import { testWithDatabase } from "../../support/database.ts";
import { eventually } from "../../support/programs.ts";
import { createTestOrganization } from "../../support/factories.ts";
import { createTestStore, startStoreApi, startStoreApiOf } from "../startStoreApi.ts";

const test = testWithDatabase();

test("the first header that is missing or wrong decides the code", async (t) => {
  const { db, get, store } = await startStoreApiOf(t);
  const { apiKeyProd, apiKeyTest } = await createTestOrganization(db);
  const revoked = await createTestStore(db);
  const [key] = await listApiKeys(db, revoked.id);
  await revokeApiKey(db, key?.id ?? "", new Date());
  const { api_key = "" } = store.live;

  for (const [headers, code] of [
    [{ api_key: "", shop_name: store.domain }, "UNAUTHORIZED"],
    [{ api_key, shop_name: " ", user_id: "" }, "UNAUTHORIZED"],
    [{ api_key: apiKeyProd }, "UNAUTHORIZED"],
    [{ api_key: apiKeyTest, shop_name: "nowhere.example" }, "WRONG_KEY_TYPE"],
    [{ api_key, shop_name: "a.example/path" }, "INVALID_SHOP"],
    [key?.mode === "live" ? revoked.live : revoked.test, "INVALID_KEY"],
    [key?.mode === "live" ? revoked.test : revoked.live, undefined],
    [{ api_key, shop_name: ` HTTPS://${store.domain.toUpperCase()}./ ` }, undefined],
    // A store's user id is its own id by default.
    [{ api_key, user_id: store.id }, undefined],
  ] as const) {
    const { status, body } = await get("/app/api/verify", headers);
    t.is(status, code === undefined ? 200 : 401);
    t.is(body["code"], code, JSON.stringify(headers));
  }
});

test("without a valid key, known, unknown and uninstalled stores get the same response", async (t) => {
  const { db } = t.context;
  const { get, store: installed } = await startStoreApiOf(t);
  const uninstalled = await createTestStore(db);
  await updateStore(db, uninstalled.id, { uninstalledAt: new Date() });

  for (const name of [installed.domain, uninstalled.domain, "nowhere.example", "not a domain"]) {
    const headers = { api_key: "PROD-unknown", shop_name: name };
    const text = '{"error":"invalid API key for this store","code":"INVALID_KEY"}';
    t.like(await get("/app/api/verify", headers), { status: 401, text }, name);
  }
});

test("the headers are accepted with hyphens; two spellings that differ are a 400", async (t) => {
  const userId = `user-${crypto.randomUUID()}`;
  const { get, post, store } = await startStoreApiOf(t, { store: { userId } });
  const key = store.test["api_key"] ?? "";
  const { domain } = store;

  for (const headers of [
    { "api-key": key, "shop-name": domain },
    { "api-key": key, "user-id": userId },
    { "Api-Key": key, shop_name: domain, "shop-name": ` ${domain} ` },
    { api_key: key, "api-key": "", "shop-name": domain },
  ]) {
    t.is((await get("/app/api/verify", headers)).body["shop_domain"], domain);
  }
  for (const [name, alias] of [
    ["api_key", "api-key"],
    ["shop_name", "shop-name"],
    ["user_id", "user-id"],
  ] as const) {
    const headers = { api_key: key, shop_name: domain, user_id: userId, [alias]: "other" };
    const { status, body } = await post("/app/api/plant", headers, { trees: 1 });
    t.is(status, 400);
    const error = `${name}: ${name}, ${alias} are aliases; their values must match`;
    t.deepEqual(body, { error, code: "INVALID_PARAMETER" });
  }
});

test("every response to a key depends on all spellings of its headers and must not be stored", async (t) => {
  const { get, post, store } = await startStoreApiOf(t);

  for (const { status, headers } of [
    await get("/app/api/verify", store.live),
    await get("/app/api/verify", {}),
    await get("/app/api/plant?limit=x", store.live),
    await post("/app/api/plant", store.live, { trees: 1 }),
  ]) {
    t.is(headers.get("Vary"), "api_key, api-key, shop_name, shop-name, user_id, user-id");
    t.is(headers.get("Cache-Control"), "no-store", String(status));
    t.is(headers.get("X-Content-Type-Options"), "nosniff");
  }
});

test("once store uninstall returns, the next request is rejected by every process, until it is installed again", async (t) => {
  const { db } = t.context;
  const processes = [await startStoreApi(t, { db }), await startStoreApi(t, { db })];
  const store = await createTestStore(db);
  const verify = () =>
    Promise.all(
      processes.map(async ({ get }) => {
        const { status, body } = await get("/app/api/verify", store.live);
        return body["code"] ?? status;
      }),
    );
  t.deepEqual(await verify(), [200, 200]);

  const command = { hasEnded: false };
  const uninstall = ["store", "update", store.domain, "--installed", "off"];
  const uninstalling = impactOf(t)(...uninstall).finally(() => {
    command.hasEnded = true;
  });
  // Constant use must not prolong it.
  while (!command.hasEnded) {
    await verify();
  }
  const uninstalled = await uninstalling;

  t.deepEqual(await verify(), ["INVALID_SHOP", "INVALID_SHOP"]);
  t.is(uninstalled.exitCode, 0, uninstalled.stderr);
  await updateStore(db, store.id, { uninstalledAt: null });
  await eventually(async () => (await verify()).every((result) => result === 200));
});

test("errors of HTTP itself have a code too", async (t) => {
  const { url, get, post, store } = await startStoreApiOf(t);

  t.is((await get("/app/api/nothing", store.live)).body["code"], "NOT_FOUND");
  const wrongMethod = await post("/app/api/verify", store.live, {});
  t.like(wrongMethod, { status: 405, body: { code: "METHOD_NOT_ALLOWED" } });
  const large = { trees: 1, notes: "x".repeat(1024 * 1024) };
  const tooLarge = await post("/app/api/plant", store.live, large);
  t.like(tooLarge, { status: 413, body: { code: "PAYLOAD_TOO_LARGE" } });
  const wrongType = await fetch(`${url}/app/api/plant`, {
    method: "POST",
    headers: { ...store.live, "Content-Type": "text/plain" },
    body: "{}",
  });
  t.is(wrongType.status, 400);
  t.like(await wrongType.json(), { code: "INVALID_PARAMETER" });
});
