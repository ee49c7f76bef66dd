import { z } from "zod";
import { startStoreApi } from "../stores/startStoreApi.ts";
import { testWithDatabase } from "../support/database.ts";
import { apiDescription } from "./responseChecker.ts";
import { idIn, KIND_NAMES } from "./contract.ts";
import { rawRequest } from "./http/rawRequest.ts";
import { startStandaloneApi, startApiOf } from "./startStandaloneApi.ts";

const test = testWithDatabase();

const operation = z.looseObject({
  operationId: z.string(),
  parameters: z.array(z.looseObject({ name: z.string(), schema: z.looseObject({}) })).default([]),
  requestBody: z
    .looseObject({
      content: z.looseObject({ "application/json": z.looseObject({ example: z.unknown() }) }),
    })
    .optional(),
});

const readDescription = async (url: string): Promise<z.output<typeof apiDescription>> =>
  apiDescription.parse(await (await fetch(`${url}/openapi.json`)).json());

test("the four charity endpoints of the contract alone have a 429", async (t) => {
  const { url } = await startStandaloneApi(t, t.context);
  const { paths } = await readDescription(url);

  const limited = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, { responses }]) =>
      "429" in responses
        ? [
            [
              `${method} ${path}`,
              z.looseObject({ description: z.string() }).parse(responses["429"]).description,
            ],
          ]
        : [],
    ),
  );

  const description = "The key sent more than 20 requests to this endpoint within a second.";
  t.deepEqual(
    Object.fromEntries(limited),
    Object.fromEntries(
      [
        "get /charities/search",
        "post /charities/donate",
        "get /charities/donations",
        "post /charities/subscribe",
      ].map((endpoint) => [endpoint, description]),
    ),
  );
});

test("the API description has every endpoint and status of the contract", async (t) => {
  const { url } = await startStandaloneApi(t, t.context);
  const { openapi, paths } = await readDescription(url);

  t.regex(openapi, /^3\.1\./u);
  const statuses = Object.fromEntries(
    Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, { responses }]) => [
        `${method} ${path}`,
        Object.keys(responses).join(" "),
      ]),
    ),
  );
  const register = "200 400 403 408 413 417 431 500 503";
  const list = "200 400 403 408 417 431 500 503";
  const refund = "200 400 403 404 408 413 417 431 500 503";
  t.deepEqual(statuses, {
    "post /plant/trees": register,
    "get /plant/trees": list,
    "post /plant/trees/batch": register,
    "post /refund/trees": refund,
    "post /refund/trees/batch": register,
    "post /rescue/plastic_bottles": register,
    "get /rescue/plastic_bottles": list,
    "post /rescue/plastic_bottles/batch": register,
    "post /refund/plastic_bottles": refund,
    "post /refund/plastic_bottles/batch": register,
    "get /charities/search": "200 400 403 408 417 429 431 500 503",
    "post /charities/donate": "200 400 403 408 413 417 429 431 500 503",
    "get /charities/donations": "200 400 403 408 417 429 431 500 503",
    "post /charities/donate/batch": "200 400 403 408 413 417 431 500 503",
    "post /refund/donations/batch": register,
    "post /charities/subscribe": "200 400 403 408 413 417 429 431 500 503",
    "post /refund/donations": "200 400 403 404 408 413 417 431 500 503",
    "get /events": "200 400 403 408 410 417 431 500 503",
    "get /evidence": "200 304 400 403 408 417 431 500 503",
    "get /evidence/tree/{id}": "200 304 400 403 404 408 417 431 500 503",
    "post /webhook_endpoints": "200 400 403 408 413 417 431 500 503",
    "get /webhook_endpoints": list,
    "get /webhook_endpoints/{id}": "200 400 403 404 408 417 431 500 503",
    "post /webhook_endpoints/{id}": refund,
    "delete /webhook_endpoints/{id}": "200 400 403 404 408 417 431 500 503",
    "post /webhook_endpoints/{id}/rotate": refund,
    "post /webhook_endpoints/{id}/ping": refund,
    "post /webhook_endpoints/{id}/recover": refund,
    "get /webhook_endpoints/{id}/deliveries": "200 400 403 404 408 417 431 500 503",
    "get /usage": list,
    "get /usage/{registration_id}": "200 400 403 404 408 417 431 500 503",
    "get /statement": list,
    "get /stats": list,
    "get /certificate_url": "200 400 403 404 408 417 431 500 503",
    "get /dashboard_url": "200 400 401 403 408 417 431 500 503",
    "get /healthz": "200 400 408 417 431",
    "get /readyz": "200 400 408 417 431 503",
  });
});

test("every path serves exactly the methods that are described", async (t) => {
  const { url, call } = await startStandaloneApi(t, t.context);
  const { paths } = await readDescription(url);
  for (const [path, methods] of Object.entries(paths)) {
    const { headers } = await call("OPTIONS", path);
    const served = (headers.get("Allow") ?? "").split(", ");
    const described = Object.keys(methods).map((method) => method.toUpperCase());
    t.deepEqual(
      served.filter((method) => !["HEAD", "OPTIONS"].includes(method)).toSorted(),
      described.toSorted(),
    );
  }
});

test("generators find a name for every object, exact numbers and plain parameters", async (t) => {
  const apis = [await startStandaloneApi(t, t.context), await startStoreApi(t, t.context)];
  for (const { url } of apis) {
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
    const parameters = Object.values(paths).flatMap((methods) =>
      Object.values(methods).flatMap((each) => operation.parse(each).parameters),
    );
    for (const { name, schema } of parameters) {
      t.regex(String(schema["type"]), /^(?:string|integer|boolean)$/u, name);
    }
  }
});

test("operation ids are unique", async (t) => {
  const { url } = await startStandaloneApi(t, t.context);
  const { paths } = await readDescription(url);
  const names = Object.values(paths).flatMap((methods) =>
    Object.values(methods).map((each) => operation.parse(each).operationId),
  );

  t.is(new Set(names).size, names.length);
});

test("the request examples are accepted", async (t) => {
  const { url, call, key } = await startApiOf(t);
  const { paths } = await readDescription(url);
  const exampleOf = (path: string): object => {
    const { requestBody } = operation.parse(paths[path]?.["post"]);
    return z.looseObject({}).parse(requestBody?.content["application/json"].example);
  };
  for (const kind of ["tree", "bottle"] as const) {
    const { path, refundPath } = KIND_NAMES[kind];

    const registered = await call("POST", path, { key, body: exampleOf(path) });
    t.is(registered.status, 200);
    const id = idIn(registered.body, kind);
    const refunded = await call("POST", refundPath, {
      key,
      body: { ...exampleOf(refundPath), id },
    });
    t.is(refunded.status, 200);
  }
});

test("the parameter examples are accepted", async (t) => {
  const { url, call, key } = await startApiOf(t);
  const { paths } = await readDescription(url);
  const { parameters } = operation.parse(paths["/plant/trees"]?.["get"]);
  const examples = parameters.flatMap(({ name, schema }) => {
    const { examples: [example] = [] } = z
      .looseObject({ examples: z.array(z.union([z.string(), z.number()])).optional() })
      .parse(schema);
    return example === undefined ? [] : [[name, String(example)] as const];
  });

  t.is(parameters.length, 8);
  t.is(examples.length, 5);
  const search = new URLSearchParams(Object.fromEntries(examples)).toString();
  t.is((await call("GET", `/plant/trees?${search}`, { key })).status, 200);
});

test("the examples of errors match their schemas", async (t) => {
  const { url, checkResponse } = await startStandaloneApi(t, t.context);
  const { paths } = await readDescription(url);
  let examples = 0;
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, { responses }] of Object.entries(methods)) {
      for (const [status, { content }] of Object.entries(responses)) {
        const { example } =
          z
            .looseObject({ "application/json": z.looseObject({ example: z.unknown() }) })
            .safeParse(content).data?.["application/json"] ?? {};
        if (example !== undefined) {
          examples += 1;
          checkResponse({
            method: method.toUpperCase(),
            path,
            status: Number(status),
            contentType: "application/json; charset=utf-8",
            text: JSON.stringify(example),
          });
        }
      }
    }
  }
  t.true(examples > 100);
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
  const redirect = await fetch(`${url}/docs/`);
  t.is(redirect.url, `${url}/docs`);
});

test("a browser at the base URL is redirected to the description; an API client gets a 404", async (t) => {
  const { url, call } = await startStandaloneApi(t, t.context);
  const accept = "text/html,application/xhtml+xml,*/*;q=0.8";

  const shown = await fetch(url, { headers: { accept } });
  t.is(shown.url, `${url}/docs`);
  t.is(shown.status, 200);
  t.regex(await shown.text(), /<title>API of the impact tracking service<\/title>/u);
  t.is((await call("GET", "/")).status, 404);
  t.is((await call("POST", "/", { headers: { accept } })).status, 404);
  t.is((await call("GET", "/plant", { headers: { accept } })).status, 404);
});

test("the description, the page and its files are revalidated by their ETag", async (t) => {
  const { url } = await startStandaloneApi(t, t.context);

  for (const path of ["/openapi.json", "/docs", "/docs/start.js", "/docs/swagger-ui.css"]) {
    const first = await fetch(`${url}${path}`);
    await first.text();
    const etag = first.headers.get("ETag") ?? "";
    // fetch adds Cache-Control: no-cache if If-None-Match is set by hand.
    const again = await fetch(`${url}${path}`, { headers: { "If-None-Match": etag } });
    t.is(again.status, 304, path);
    const dated = await rawRequest(
      url,
      `GET ${path} HTTP/1.1\r\nHost: x\r\nIf-None-Match: ${etag}\r\n` +
        "If-Modified-Since: Sat, 29 Oct 1994 19:43:31 GMT\r\nConnection: close\r\n\r\n",
    );
    t.is(dated.slice(0, 12), "HTTP/1.1 304", `${path} with a date, which is ignored`);
  }
});
