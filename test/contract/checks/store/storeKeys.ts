import { z } from "zod";
import { checksOf } from "../../check.ts";
import type { Check, Endpoint } from "../../check.ts";
import { expect } from "../../expectations.ts";

const ENDPOINTS: readonly Endpoint[] = [
  ["GET", "/app/api/verify"],
  ["POST", "/app/api/plant", { trees: 1 }],
  ["GET", "/app/api/plant"],
  ["POST", "/app/api/plastic", { bottles: 1 }],
  ["GET", "/app/api/plastic"],
  ["POST", "/app/api/charity/donate", { charity_id: "53-0196605", amount_dollars: 1 }],
  ["GET", "/app/api/impact/stats"],
  ["POST", "/app/api/refund", { type: "tree", quantity: 1 }],
  ["GET", "/app/api/evidence"],
];

const verified = z.looseObject({
  status: z.string().min(1),
  shop_domain: z.string(),
  key_mode: z.enum(["PROD", "TEST"]),
  features: z.looseObject({
    tree_planting: z.boolean(),
    plastic_removal: z.boolean(),
    donations: z.boolean(),
  }),
});

const endpointChecks = ([method, path, body]: Endpoint): readonly Check[] => {
  const { contract } = checksOf(`${method} ${path}`, () => ({}));
  const declare = (
    name: string,
    code: string,
    headersOf: (setting: (name: string) => string) => readonly Readonly<Record<string, string>>[],
  ): Check =>
    contract(name, async (t) => {
      for (const headers of headersOf(t.service.setting)) {
        const answer = await t.service.request("store", method, path, { headers, body });
        expect.storeError(answer, 401, code);
      }
    });
  return [
    declare("a missing api_key or store is a 401 UNAUTHORIZED", "UNAUTHORIZED", (setting) => [
      {},
      { shop_name: setting("STORE_SHOP") },
      { api_key: setting("STORE_TEST_KEY") },
      { Authorization: setting("STORE_TEST_KEY"), shop_name: setting("STORE_SHOP") },
    ]),
    declare("an unknown key is a 401 INVALID_KEY", "INVALID_KEY", (setting) =>
      [
        "TEST-invalid",
        "PROD-invalid",
        "invalid",
        `${setting("STORE_TEST_KEY")}x`,
        `Bearer ${setting("STORE_TEST_KEY")}`,
      ].map((key) => ({ api_key: key, shop_name: setting("STORE_SHOP") })),
    ),
    declare("another store's key is a 401 INVALID_KEY", "INVALID_KEY", (setting) => [
      { api_key: setting("STORE_OTHER_TEST_KEY"), shop_name: setting("STORE_SHOP") },
    ]),
    declare(
      "a key of the standalone interface is a 401 WRONG_KEY_TYPE",
      "WRONG_KEY_TYPE",
      (setting) => [{ api_key: setting("IMPACT_TEST_KEY"), shop_name: setting("STORE_SHOP") }],
    ),
    declare("an unknown store is a 401 INVALID_SHOP", "INVALID_SHOP", (setting) => [
      { api_key: setting("STORE_TEST_KEY"), shop_name: "unknown-store.example" },
      {
        api_key: setting("STORE_TEST_KEY"),
        shop_name: setting("STORE_SHOP"),
        user_id: "unknown-user",
      },
    ]),
  ];
};

const { contract } = checksOf("GET /app/api/verify", () => ({}));

export const storeKeyChecks: readonly Check[] = [
  ...ENDPOINTS.flatMap((endpoint) => endpointChecks(endpoint)),
  ...(["test", "prod"] as const).map((key) =>
    contract(`with a ${key} key it returns the store, the mode and the features`, async (t) => {
      const body = expect.body(await t.service.store(key).get("/app/api/verify"), verified);
      expect.equal("key_mode", body.key_mode, key.toUpperCase());
      expect.equal("shop_domain", body.shop_domain, t.service.setting("STORE_SHOP"));
    }),
  ),
  contract("user_id names the store, whatever shop_name is", async (t) => {
    const headers = {
      api_key: t.service.setting("STORE_TEST_KEY"),
      user_id: t.service.setting("STORE_USER_ID"),
    };
    for (const shop of [
      {},
      { shop_name: "unknown-store.example" },
      { shop_name: t.service.setting("STORE_OTHER_SHOP") },
    ]) {
      const answer = await t.service.request("store", "GET", "/app/api/verify", {
        headers: { ...headers, ...shop },
      });
      const { shop_domain: domain } = expect.body(answer, verified);
      expect.equal("shop_domain", domain, t.service.setting("STORE_SHOP"));
    }
  }),
  contract("unknown parameters and headers are no obstacle", async (t) => {
    const answer = await t.service.store().get("/app/api/verify", { foo: "1" }, { "X-Other": "1" });
    expect.status(answer, 200);
  }),
];
