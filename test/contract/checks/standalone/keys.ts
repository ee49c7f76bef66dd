import { setTimeout as delay } from "node:timers/promises";
import { checksOf, atOnce } from "../../check.ts";
import type { Check, Endpoint } from "../../check.ts";
import type { Answer, Service } from "../../client.ts";
import { expect } from "../../expectations.ts";

const ENDPOINTS: readonly Endpoint[] = [
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

const endpointChecks = ([method, path, body]: Endpoint): readonly Check[] => {
  const { contract } = checksOf(`${method} ${path}`, (service) => ({
    send: (headers: Readonly<Record<string, string>>): Promise<Answer> =>
      service.request("standalone", method, path, { headers, body }),
  }));
  return [
    path === "/dashboard_url"
      ? contract("a missing key is a 401 with its message", async (t) => {
          expect.error(await t.send({}), 401, "missing Authorization header");
        })
      : contract("a missing key is a 403 with the message invalid API key", async (t) => {
          expect.error(await t.send({}), 403, INVALID);
        }),
    contract("an invalid key is a 403 with the message invalid API key", async (t) => {
      const key = t.service.setting("IMPACT_TEST_KEY");
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
        expect.error(await t.send({ Authorization: invalid }), 403, INVALID);
      }
    }),
    contract("a key with the prefix Bearer is a 403", async (t) => {
      const key = t.service.setting("IMPACT_TEST_KEY");
      for (const prefix of [
        "Bearer ",
        "bearer ",
        "BEARER ",
        "Bearer  ",
        "Bearer\t",
        "Token ",
        "Basic ",
      ]) {
        expect.error(await t.send({ Authorization: prefix + key }), 403, INVALID);
      }
    }),
    contract("a key of the store interface is a 403", async (t) => {
      const key = t.service.setting("STORE_TEST_KEY");
      expect.error(await t.send({ Authorization: key }), 403, INVALID);
    }),
  ];
};

const authentication = checksOf("Authentication", () => ({}));

export const keyChecks: readonly Check[] = [
  ...ENDPOINTS.flatMap((endpoint) => endpointChecks(endpoint)),
  authentication.contract("a key in another header or in the URL is missing", async (t) => {
    const key = t.service.setting("IMPACT_TEST_KEY");
    const anonymous = (path: string, headers = {}): Promise<Answer> =>
      t.service.request("standalone", "GET", path, { headers });
    expect.error(await anonymous("/plant/trees", { api_key: key }), 403, INVALID);
    expect.error(await anonymous("/plant/trees", { "X-API-Key": key }), 403, INVALID);
    expect.error(await anonymous(`/plant/trees?api_key=${encodeURIComponent(key)}`), 403, INVALID);
  }),
  authentication.contract("an invalid body without a key is a 403", async (t) => {
    for (const body of ["{", { count: -1 }, ""]) {
      const answer = await t.service.request("standalone", "POST", "/plant/trees", { body });
      expect.error(answer, 403, INVALID);
    }
  }),
];

const LIMITED_ENDPOINTS: readonly Endpoint[] = [
  ["GET", "/charities/search"],
  // An invalid donation, because the limit is on requests.
  ["POST", "/charities/donate", { amount_cents: 0 }],
  ["GET", "/charities/donations"],
  ["POST", "/charities/subscribe"],
];

const limitScene = (service: Service) => ({
  /** Sends requests at once without repeating those that exceed the limit. */
  burst: (count: number, [method, path, body]: Endpoint) => {
    const headers = { Authorization: service.setting("IMPACT_TEST_KEY") };
    return atOnce(count, () => service.request("standalone", method, path, { headers, body }));
  },
});

const limitChecks = (endpoint: Endpoint): readonly Check[] => {
  const [method, path] = endpoint;
  const { contract } = checksOf(`${method} ${path}`, limitScene);
  return [
    contract("more than 20 requests a second are a 429 with Retry-After: 1", async (t) => {
      const startMs = Date.now();
      const answers = await t.burst(150, endpoint);
      const seconds = Math.ceil((Date.now() - startMs) / 1000);
      const limited = answers.filter(({ status }) => status === 429);
      const accepted = answers.length - limited.length;
      const what = `at most 20 requests a second for ${seconds} s succeed`;
      expect.that(accepted <= 20 * (seconds + 1), what, accepted);
      expect.that(limited.length > 0, "requests beyond the limit are refused", limited.length);
      for (const answer of limited) {
        expect.error(answer, 429, "rate limit exceeded");
        expect.equal("Retry-After", answer.headers.get("retry-after"), "1");
      }
    }),
    contract("20 requests a second are accepted", async (t) => {
      // The limit's second may have begun in an earlier check.
      await delay(2100);
      const answers = await t.burst(20, endpoint);
      expect.equal("429s", answers.filter(({ status }) => status === 429).length, 0);
    }),
  ];
};

const rateLimits = checksOf("Rate limits", limitScene);

export const rateLimitChecks: readonly Check[] = [
  ...LIMITED_ENDPOINTS.flatMap((endpoint) => limitChecks(endpoint)),
  rateLimits.contract("each key and endpoint has its own limit", async (t) => {
    await t.burst(60, ["GET", "/charities/search"]);
    const [own] = await t.burst(1, ["GET", "/charities/donations"]);
    expect.equal("status of another endpoint", own?.status, 200);
    const headers = { Authorization: t.service.setting("IMPACT_OTHER_TEST_KEY") };
    const other = await t.service.request("standalone", "GET", "/charities/search", { headers });
    expect.equal("status with another key", other.status, 200);
  }),
];
