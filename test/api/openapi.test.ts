import { z } from "zod";
import { startStoreApi, startStoreApiOf } from "../stores/startStoreApi.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseTest } from "../support/database.ts";
import { listOperations, readDescription } from "./responseChecker.ts";
import { idIn, KIND_NAMES } from "./contract.ts";
import { rawRequest } from "./http/rawRequest.ts";
import { startStandaloneApi, startApiOf } from "./startStandaloneApi.ts";

const test = testWithDatabase();

const described = z.looseObject({
  operationId: z.string(),
  parameters: z.array(z.looseObject({ name: z.string(), schema: z.looseObject({}) })).default([]),
  requestBody: z
    .looseObject({
      content: z.looseObject({ "application/json": z.looseObject({ example: z.unknown() }) }),
    })
    .optional(),
});

const startBoth = async (t: DatabaseTest) => ({
  standalone: await startStandaloneApi(t, t.context),
  store: await startStoreApi(t, t.context),
});

/** The contract's endpoints with its statuses. Ours are in the descriptions, too. */
const CONTRACT = {
  standalone: {
    "POST /plant/trees": [400, 403, 500],
    "GET /plant/trees": [400, 403, 500],
    "POST /refund/trees": [400, 403, 500],
    "POST /rescue/plastic_bottles": [400, 403, 500],
    "GET /rescue/plastic_bottles": [400, 403, 500],
    "POST /refund/plastic_bottles": [400, 403, 500],
    "GET /evidence": [403, 500],
    "GET /evidence/tree/{id}": [400, 403, 404, 500],
    "GET /charities/search": [400, 403, 429, 500],
    "POST /charities/donate": [400, 403, 429, 500],
    "GET /charities/donations": [400, 403, 429, 500],
    "POST /charities/subscribe": [400, 403, 429, 500],
    "POST /refund/donations": [400, 403, 404, 500],
    "GET /dashboard_url": [401, 403, 500],
  },
  store: {
    "GET /app/api/verify": [401],
    "POST /app/api/plant": [400, 401, 402, 403],
    "GET /app/api/plant": [400, 401],
    "POST /app/api/plastic": [400, 401, 402, 403],
    "GET /app/api/plastic": [400, 401],
    "POST /app/api/charity/donate": [400, 401, 402, 403],
    "GET /app/api/impact/stats": [400, 401],
    "POST /app/api/refund": [400, 401],
    "GET /app/api/evidence": [400, 401, 404],
  },
};

test("the descriptions have every endpoint and status of the contract", async (t) => {
  const apis = await startBoth(t);
  for (const name of ["standalone", "store"] as const) {
    const operations = await listOperations(apis[name].url);
    for (const [endpoint, statuses] of Object.entries(CONTRACT[name])) {
      const found = operations.find((each) => each.name === endpoint);
      const known = Object.keys(found?.operation.responses ?? {});
      const missing = ["200", ...statuses.map(String)].filter((each) => !known.includes(each));
      t.deepEqual(missing, [], endpoint);
    }
  }
});

test("the four charity endpoints of the contract alone have a 429", async (t) => {
  const { url } = await startStandaloneApi(t, t.context);
  t.regex((await readDescription(url)).openapi, /^3\.1\./u);
  const limited = (await listOperations(url)).flatMap(({ name, operation: { responses } }) =>
    "429" in responses ? [[name, responses["429"]?.["description"]]] : [],
  );
  const when = "The key sent more than 20 requests to this endpoint within a second.";
  t.deepEqual(Object.fromEntries(limited), {
    "GET /charities/search": when,
    "POST /charities/donate": when,
    "GET /charities/donations": when,
    "POST /charities/subscribe": when,
  });
});

test("every path serves exactly the methods that are described, under unique ids", async (t) => {
  for (const { url } of Object.values(await startBoth(t))) {
    const { paths } = await readDescription(url);
    const operations = await listOperations(url);
    const ids = operations.map((each) => described.parse(each.operation).operationId);
    t.is(new Set(ids).size, ids.length);
    for (const [path, methods] of Object.entries(paths)) {
      const { headers } = await fetch(url + path, { method: "OPTIONS" });
      const served = (headers.get("Allow") ?? "").split(", ");
      t.deepEqual(
        served.filter((method) => !["HEAD", "OPTIONS"].includes(method)).toSorted(),
        Object.keys(methods)
          .map((method) => method.toUpperCase())
          .toSorted(),
      );
    }
  }
});

test("generators find a name for every object, exact numbers and plain parameters", async (t) => {
  for (const { url } of Object.values(await startBoth(t))) {
    const { paths, components } = await readDescription(url);
    const { schemas } = z
      .looseObject({ schemas: z.record(z.string(), z.looseObject({})) })
      .parse(components);
    const inline: string[] = [];
    const visit = (part: unknown, place: string): void => {
      if (typeof part !== "object" || part === null) {
        return;
      }
      const schema = z.looseObject({}).parse({ ...part });
      const types = new Set([schema["type"]].flat());
      if (typeof schema["properties"] === "object" || schema["oneOf"] !== undefined) {
        inline.push(place);
      }
      if (types.has("integer") || types.has("number")) {
        t.regex(String(schema["format"]), /^(?:int64|double)$/u, place);
      }
      for (const [name, inner] of Object.entries(part)) {
        if (!name.startsWith("example")) {
          visit(inner, `${place}/${name}`);
        }
      }
    };
    visit(paths, "");
    for (const [name, schema] of Object.entries(schemas)) {
      visit(Object.values(schema), name);
    }
    t.deepEqual(inline, []);
    for (const { operation } of await listOperations(url)) {
      for (const { name, schema } of described.parse(operation).parameters) {
        t.regex(String(schema["type"]), /^(?:string|integer|boolean)$/u, name);
      }
    }
  }
});

test("the examples of requests and of parameters are accepted", async (t) => {
  const { url, get, post } = await startApiOf(t);
  const { paths } = await readDescription(url);
  const exampleOf = (path: string): object => {
    const { requestBody } = described.parse(paths[path]?.["post"]);
    return z.looseObject({}).parse(requestBody?.content["application/json"].example);
  };
  for (const kind of ["tree", "bottle"] as const) {
    const { path, refundPath } = KIND_NAMES[kind];

    const registered = await post(path, exampleOf(path));
    t.is(registered.status, 200);
    const id = idIn(registered.body, kind);
    t.is((await post(refundPath, { ...exampleOf(refundPath), id })).status, 200);
  }

  const { parameters } = described.parse(paths["/plant/trees"]?.["get"]);
  const examples = parameters.flatMap(({ name, schema }) => {
    const { examples: [example] = [] } = z
      .looseObject({ examples: z.array(z.union([z.string(), z.number()])).optional() })
      .parse(schema);
    return example === undefined ? [] : [[name, String(example)] as const];
  });
  t.deepEqual([parameters.length, examples.length], [8, 5]);
  const search = new URLSearchParams(Object.fromEntries(examples)).toString();
  t.is((await get(`/plant/trees?${search}`)).status, 200);
});

test("the examples of the writes work one after the other", async (t) => {
  const { url, post, store } = await startStoreApiOf(t);
  const { paths } = await readDescription(url);

  const statuses: Record<string, number> = {};
  for (const [path, { post: operation }] of Object.entries(paths)) {
    // Webhook endpoints are settings, and their examples name one that does not exist.
    if (operation && !path.startsWith("/app/api/webhook_endpoints")) {
      const { requestBody, parameters } = described.parse(operation);
      const key = parameters.find(({ name }) => name === "Idempotency-Key");
      t.deepEqual(key?.schema, { type: "string", maxLength: 1000 });
      const example = requestBody?.content["application/json"].example;
      statuses[path] = (await post(path, store.test, example)).status;
    }
  }

  t.deepEqual(statuses, {
    "/app/api/plant": 200,
    "/app/api/plastic": 200,
    "/app/api/charity/donate": 200,
    "/app/api/refund": 200,
    // Test keys have no balance.
    "/app/api/topup": 400,
  });
});

test("the page loads files only from the service, under a strict content security policy", async (t) => {
  const { url } = await startStandaloneApi(t, t.context);

  const page = await fetch(`${url}/docs`);
  const html = await page.text();

  t.is(page.status, 200);
  const policy = page.headers.get("Content-Security-Policy") ?? "";
  t.regex(policy, /^default-src 'none'; script-src 'self'; /u);
  t.notRegex(policy, /unsafe|https?:|\*/u);
  const links = [...html.matchAll(/(?:src|href)="([^"]+)"/gu)].map(([, link]) => link ?? "");
  t.true(links.length >= 4);
  for (const link of links) {
    t.notRegex(link, /^(?:https?:)?\/\//u);
    const response = await fetch(new URL(link, `${url}/docs`));
    await response.arrayBuffer();
    t.is(response.status, 200, link);
  }
  t.notRegex(html, /<script>|<style|style=|onload/u);
  // The library brings the page's main landmark.
  t.notRegex(html, /<main/u);
  t.is((await fetch(`${url}/docs/`)).url, `${url}/docs`);
});

test("the base URL leads to the description", async (t) => {
  for (const { url } of Object.values(await startBoth(t))) {
    const shown = await fetch(url);
    t.is(shown.url, `${url}/docs`);
    t.is(shown.status, 200);
    t.regex(await shown.text(), /<title>API of the impact tracking service<\/title>/u);
    t.is((await fetch(`${url}/plant`, { headers: { accept: "text/html" } })).status, 404);
  }
});

test("the description, the page and its files are revalidated by their ETag", async (t) => {
  const { url } = await startStandaloneApi(t, t.context);

  for (const path of ["/openapi.json", "/docs", "/docs/start.js", "/docs/swagger-ui.css"]) {
    const first = await fetch(`${url}${path}`);
    await first.text();
    const etag = first.headers.get("ETag") ?? "";
    // fetch adds Cache-Control: no-cache if If-None-Match is set by hand.
    for (const given of [etag, `"other", W/${etag}`, "*"]) {
      const again = await fetch(`${url}${path}`, { headers: { "If-None-Match": given } });
      t.is(again.status, 304, `${path} with ${given}`);
    }
    const dated = await rawRequest(
      url,
      `GET ${path} HTTP/1.1\r\nHost: x\r\nIf-None-Match: ${etag}\r\n` +
        "If-Modified-Since: Sat, 29 Oct 1994 19:43:31 GMT\r\nConnection: close\r\n\r\n",
    );
    t.is(dated.slice(0, 12), "HTTP/1.1 304", `${path} with a date, which is ignored`);
  }
});
