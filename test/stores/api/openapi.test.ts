import { z } from "zod";
import { apiDescription } from "../../api/responseChecker.ts";
import { testWithDatabase } from "../../support/database.ts";
import { startStoreApi, startStoreApiOf } from "../startStoreApi.ts";

const test = testWithDatabase();

const operation = z.looseObject({
  parameters: z
    .array(z.looseObject({ name: z.string(), in: z.string(), schema: z.unknown() }))
    .default([]),
  requestBody: z
    .looseObject({
      content: z.looseObject({ "application/json": z.looseObject({ example: z.unknown() }) }),
    })
    .optional(),
});

const errorResponse = z.looseObject({
  content: z.looseObject({
    "application/json": z.looseObject({ example: z.looseObject({ error: z.string() }) }),
  }),
});

const readDescription = async (url: string) =>
  apiDescription.parse(await (await fetch(`${url}/openapi.json`)).json());

test("every endpoint is served and described with its statuses", async (t) => {
  const { url } = await startStoreApi(t, t.context);
  const { paths } = await readDescription(url);
  const write = "200 400 401 402 403 408 413 417 431 500 503";
  const act = "200 400 401 403 404 408 413 417 431 500 503";
  const readOne = "200 400 401 404 408 417 431 500 503";
  t.deepEqual(
    Object.fromEntries(
      Object.entries(paths).flatMap(([path, methods]) =>
        Object.entries(methods).map(([method, { responses }]) => [
          `${method} ${path}`,
          Object.keys(responses).join(" "),
        ]),
      ),
    ),
    {
      "get /app/api/verify": "200 400 401 408 417 431 500 503",
      "post /app/api/plant": write,
      "get /app/api/plant": "200 400 401 408 417 431 500 503",
      "post /app/api/plastic": write,
      "get /app/api/plastic": "200 400 401 408 417 431 500 503",
      "post /app/api/charity/donate": write,
      "get /app/api/impact/stats": "200 400 401 408 417 431 500 503",
      "post /app/api/refund": "200 400 401 403 408 413 417 431 500 503",
      "get /app/api/charity/donations": "200 400 401 408 417 431 500 503",
      "get /app/api/charity/search": "200 400 401 408 417 431 500 503",
      "get /app/api/evidence": "200 304 400 401 404 408 417 431 500 503",
      "get /app/api/certificate_url": "200 400 401 404 408 417 431 500 503",
      "get /app/api/order_certificate_url": "200 400 401 404 408 417 431 500 503",
      "get /app/api/balance": "200 400 401 408 417 431 500 503",
      "post /app/api/topup": "200 400 401 403 408 413 417 431 500 503",
      "post /app/api/webhook_endpoints": "200 400 401 403 408 413 417 431 500 503",
      "get /app/api/webhook_endpoints": "200 400 401 408 417 431 500 503",
      "get /app/api/webhook_endpoints/{id}": readOne,
      "post /app/api/webhook_endpoints/{id}": act,
      "delete /app/api/webhook_endpoints/{id}": "200 400 401 403 404 408 417 431 500 503",
      "post /app/api/webhook_endpoints/{id}/rotate": act,
      "post /app/api/webhook_endpoints/{id}/ping": act,
      "post /app/api/webhook_endpoints/{id}/recover": act,
      "get /app/api/webhook_endpoints/{id}/deliveries": readOne,
      "get /healthz": "200 400 408 417 431",
      "get /readyz": "200 400 408 417 431 503",
    },
  );
  for (const [path, methods] of Object.entries(paths)) {
    const allow = (await fetch(url + path, { method: "OPTIONS" })).headers.get("Allow") ?? "";
    for (const method of Object.keys(methods)) {
      t.true(allow.includes(method.toUpperCase()), path);
    }
  }
});

test("the examples of the writes work one after the other", async (t) => {
  const { url, post, store } = await startStoreApiOf(t);
  const { paths } = await readDescription(url);

  const statuses: Record<string, number> = {};
  for (const [path, { post: described }] of Object.entries(paths)) {
    // Webhook endpoints are settings, and their examples name one that does not exist.
    if (described && !path.startsWith("/app/api/webhook_endpoints")) {
      const { requestBody, parameters } = operation.parse(described);
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

test("the examples of errors name the endpoint's own parameters, fields and features", async (t) => {
  const { url } = await startStoreApi(t, t.context);
  const { paths } = await readDescription(url);
  const exampleOf = (method: string, path: string, status: number): string => {
    const { content } = errorResponse.parse(paths[path]?.[method]?.responses[status]);
    return content["application/json"].example.error;
  };

  t.regex(exampleOf("post", "/app/api/plant", 400), /^trees: /u);
  t.regex(exampleOf("post", "/app/api/plastic", 400), /^bottles: /u);
  t.regex(exampleOf("post", "/app/api/charity/donate", 400), /^amount_dollars: must be a number/u);
  t.regex(exampleOf("get", "/app/api/impact/stats", 400), /^customer: /u);
  t.regex(exampleOf("get", "/app/api/evidence", 400), /^impact_type: /u);
  t.regex(exampleOf("post", "/app/api/plant", 403), /^tree planting is/u);
  t.regex(exampleOf("post", "/app/api/plastic", 403), /^plastic removal is/u);
  t.regex(exampleOf("post", "/app/api/charity/donate", 403), /^donations are/u);
  t.regex(exampleOf("get", "/app/api/balance", 503), /^the query takes too long/u);
});

test("the documentation page is served without a key", async (t) => {
  const { url } = await startStoreApi(t, t.context);
  const page = await fetch(`${url}/docs`);
  t.is(page.status, 200);
  t.regex(page.headers.get("content-type") ?? "", /^text\/html/u);
  const redirected = await fetch(url, { headers: { accept: "text/html" } });
  t.is(redirected.url, `${url}/docs`);
});
