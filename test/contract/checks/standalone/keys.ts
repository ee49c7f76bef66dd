import { checksOf } from "../../check.ts";
import type { Check } from "../../check.ts";
import type { Answer, Service } from "../../client.ts";
import { expectError } from "../../expectations.ts";

const ENDPOINTS: readonly (readonly [method: string, path: string, body?: unknown])[] = [
  ["POST", "/plant/trees", { count: 1 }],
  ["GET", "/plant/trees"],
  ["POST", "/refund/trees", { id: "unknown" }],
  ["POST", "/rescue/plastic_bottles", { count: 1 }],
  ["GET", "/rescue/plastic_bottles"],
  ["POST", "/refund/plastic_bottles", { id: "unknown" }],
  ["GET", "/evidence"],
  ["GET", "/evidence/tree/unknown"],
  ["GET", "/charities/search"],
  ["POST", "/charities/donate", { amount_cents: 100, ein: "53-0196605" }],
  ["GET", "/charities/donations"],
  ["POST", "/charities/subscribe"],
  ["POST", "/refund/donations", { id: "unknown" }],
  ["GET", "/dashboard_url"],
];

const INVALID = "invalid API key";

const endpointChecks = ([method, path, body]: (typeof ENDPOINTS)[number]): readonly Check[] => {
  const { contract } = checksOf(`${method} ${path}`);
  const as = (service: Service, headers: Readonly<Record<string, string>>): Promise<Answer> =>
    service.request("standalone", method, path, { headers, body });
  return [
    path === "/dashboard_url"
      ? contract("a missing key is a 401 with its message", async (service) => {
          expectError(await as(service, {}), 401, "missing Authorization header");
        })
      : contract("a missing key is a 403 with the message invalid API key", async (service) => {
          expectError(await as(service, {}), 403, INVALID);
        }),
    contract("an invalid key is a 403 with the message invalid API key", async (service) => {
      const key = service.setting("IMPACT_TEST_KEY");
      for (const invalid of [
        "invalid",
        "TEST-invalid",
        key.toUpperCase(),
        "a".repeat(8000),
        "é",
        "'; DROP TABLE account; --",
        `${key}x`,
        key.slice(0, -1),
        `${key},${key}`,
      ]) {
        expectError(await as(service, { Authorization: invalid }), 403, INVALID);
      }
    }),
    contract("a key with the prefix Bearer is a 403", async (service) => {
      const key = service.setting("IMPACT_TEST_KEY");
      for (const prefix of [
        "Bearer ",
        "bearer ",
        "BEARER ",
        "Bearer  ",
        "Bearer\t",
        "Token ",
        "Basic ",
      ]) {
        expectError(await as(service, { Authorization: prefix + key }), 403, INVALID);
      }
    }),
    contract("a key of the store interface is a 403", async (service) => {
      const key = service.setting("STORE_TEST_KEY");
      expectError(await as(service, { Authorization: key }), 403, INVALID);
    }),
  ];
};

const { contract } = checksOf("Authentication");

export const keyChecks: readonly Check[] = [
  ...ENDPOINTS.flatMap((endpoint) => endpointChecks(endpoint)),
  contract("a key in another header or in the URL is missing", async (service) => {
    const key = service.setting("IMPACT_TEST_KEY");
    const anonymous = (path: string, headers = {}): Promise<Answer> =>
      service.request("standalone", "GET", path, { headers });
    expectError(await anonymous("/plant/trees", { api_key: key }), 403, INVALID);
    expectError(await anonymous("/plant/trees", { "X-API-Key": key }), 403, INVALID);
    expectError(await anonymous(`/plant/trees?api_key=${encodeURIComponent(key)}`), 403, INVALID);
  }),
  contract("an invalid body without a key is a 403", async (service) => {
    for (const body of ["{", { count: -1 }, ""]) {
      const answer = await service.request("standalone", "POST", "/plant/trees", { body });
      expectError(answer, 403, INVALID);
    }
  }),
];
