import { testWithDatabase } from "../../support/database.ts";
import { createTestOrganization } from "../../support/factories.ts";
import { rawRequest } from "./rawRequest.ts";
import { startStandaloneApi } from "../startStandaloneApi.ts";

const test = testWithDatabase();

test("every response says that it must not be stored and that its type is right", async (t) => {
  const { call, url } = await startStandaloneApi(t, t.context);
  const { apiKeyProd: key } = await createTestOrganization(t.context.db);
  const body = { count: 1 };

  for (const [{ status, headers }, vary] of [
    [await call("POST", "/plant/trees", { key, body }), "Authorization"],
    [await call("GET", "/plant/trees", { key }), "Authorization, Accept"],
    [await call("HEAD", "/plant/trees", { key }), "Authorization, Accept"],
    [await call("GET", "/plant/trees?x=1", { key }), "Authorization"],
    [await call("POST", "/plant/trees", { key: "unknown", body }), "Authorization"],
  ] as const) {
    t.is(headers.get("Vary"), vary, String(status));
    t.is(headers.get("Cache-Control"), "no-store", String(status));
    t.is(headers.get("X-Content-Type-Options"), "nosniff", String(status));
  }
  for (const { headers } of [
    await call("GET", "/healthz"),
    await call("GET", "/unknown"),
    await call("PUT", "/plant/trees"),
  ]) {
    t.is(headers.get("Cache-Control"), "no-store");
    t.is(headers.get("X-Content-Type-Options"), "nosniff");
  }
  for (const bytes of [
    "nonsense\r\n\r\n",
    "GET /healthz HTTP/1.1\r\nHost: x\r\nExpect: nothing\r\nConnection: close\r\n\r\n",
  ]) {
    const response = await rawRequest(url, bytes);
    t.regex(response, /^Cache-Control: no-store\r$/mu);
    t.regex(response, /^X-Content-Type-Options: nosniff\r$/mu);
  }
});
