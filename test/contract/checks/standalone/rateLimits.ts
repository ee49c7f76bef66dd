import { atOnce, checksOf } from "../../check.ts";
import type { Check } from "../../check.ts";
import type { Answer, Service } from "../../client.ts";
import { expectEqual, expectError, expectThat } from "../../expectations.ts";

const ENDPOINTS: readonly (readonly [method: string, path: string, body?: unknown])[] = [
  ["GET", "/charities/search"],
  // An invalid donation, because the limit is on requests.
  ["POST", "/charities/donate", { amount_cents: 0 }],
  ["GET", "/charities/donations"],
  ["POST", "/charities/subscribe"],
];

/** Sends requests at once without repeating those that exceed the limit. */
const burst = (
  service: Service,
  count: number,
  [method, path, body]: (typeof ENDPOINTS)[number],
): Promise<Answer[]> => {
  const headers = { Authorization: service.setting("IMPACT_TEST_KEY") };
  return atOnce(count, () => service.request("standalone", method, path, { headers, body }));
};

const limitChecks = (endpoint: (typeof ENDPOINTS)[number]): readonly Check[] => {
  const [method, path] = endpoint;
  const { contract } = checksOf(`${method} ${path}`);
  return [
    contract("more than 20 requests a second are a 429 with Retry-After: 1", async (service) => {
      const startMs = Date.now();
      const answers = await burst(service, 150, endpoint);
      const seconds = Math.ceil((Date.now() - startMs) / 1000);
      const limited = answers.filter(({ status }) => status === 429);
      const accepted = answers.length - limited.length;
      expectThat(
        accepted <= 20 * (seconds + 1),
        `at most 20 requests a second for ${seconds} s succeed`,
        accepted,
      );
      expectThat(limited.length > 0, "requests beyond the limit are refused", limited.length);
      for (const answer of limited) {
        expectError(answer, 429, "rate limit exceeded");
        expectEqual("Retry-After", answer.headers.get("retry-after"), "1");
      }
    }),
    contract("20 requests a second are accepted", async (service) => {
      // The limit's second may have begun in an earlier check.
      await new Promise((resolve) => {
        setTimeout(resolve, 2100);
      });
      const answers = await burst(service, 20, endpoint);
      expectEqual("429s", answers.filter(({ status }) => status === 429).length, 0);
    }),
  ];
};

const { contract } = checksOf("Rate limits");

export const rateLimitChecks: readonly Check[] = [
  ...ENDPOINTS.flatMap((endpoint) => limitChecks(endpoint)),
  contract("each key and endpoint has a limit of its own", async (service) => {
    await burst(service, 60, ["GET", "/charities/search"]);
    const [own] = await burst(service, 1, ["GET", "/charities/donations"]);
    expectEqual("status of another endpoint", own?.status, 200);
    const headers = { Authorization: service.setting("IMPACT_OTHER_TEST_KEY") };
    const other = await service.request("standalone", "GET", "/charities/search", { headers });
    expectEqual("status with another key", other.status, 200);
  }),
];
