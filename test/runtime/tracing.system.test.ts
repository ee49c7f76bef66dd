import { once } from "node:events";
import type { Duplex } from "node:stream";
import type { DatabaseTest } from "../support/database.ts";
import { testWithDatabase } from "../support/database.ts";
import { z } from "zod";
import { updateAccount } from "../../modules/accounts/accounts.sql.ts";
import { addEveryOrgCharity } from "../charities/donations/donationSetup.ts";
import { startProviderDouble } from "../charities/startProviderDouble.ts";
import { freshEin } from "../support/factories.ts";
import { eventually, startProgram } from "../support/programs.ts";
import { serveRequests } from "../support/server.ts";
import { deployAtStripe } from "../worker/deployAtStripe.ts";
import { startCollector } from "./startCollector.ts";
import type { ReceivedSpan } from "./startCollector.ts";

// Serial, because a dispatcher serves everything that waits in the database of the file.
const test = testWithDatabase().serial;

const TRACE_ID = "0af7651916cd43dd8448eb211c80319c";
const CLIENT_SPAN_ID = "b7ad6b7169203331";
const TRACEPARENT = `00-${TRACE_ID}-${CLIENT_SPAN_ID}-01`;

const deploy = async (t: DatabaseTest, settings: Readonly<Record<string, string>> = {}) => {
  const collector = await startCollector(t);
  const { startApi, startWorker, post, subscriber } = await deployAtStripe(t);
  const environment = {
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_BSP_SCHEDULE_DELAY: "50",
    ...settings,
  };
  const api = await startApi(environment);
  return {
    ...collector,
    api: api.process,
    organization: subscriber,
    key: subscriber.apiKeyProd,
    startWorker: () => startWorker(environment),
    post: (path: string, body: object, headers?: Readonly<Record<string, string>>) =>
      post(api, path, body, headers),
  };
};

/** Returns the names of a span and of those that contain it, outermost first. */
const pathTo = (spans: readonly ReceivedSpan[], span: ReceivedSpan): readonly string[] => {
  const parent = spans.find(({ spanId }) => spanId === span.parentSpanId);
  return [...(parent ? pathTo(spans, parent) : []), span.name];
};

const named = (spans: readonly ReceivedSpan[], name: string): ReceivedSpan | undefined =>
  spans.find((span) => span.name === name);

const traceOf = (index: number): string => index.toString(16).padStart(32, "a");

test("a POST's trace leads to its batch, its usage has a trace to Stripe, and a trace that the client does not sample is not exported", async (t) => {
  const { spans, post, startWorker } = await deploy(t);
  await startWorker();
  const unsampled = traceOf(0xff);

  const response = await post("/plant/trees", { count: 3 }, { traceparent: TRACEPARENT });
  await post("/plant/trees", { count: 1 }, { traceparent: `00-${unsampled}-${CLIENT_SPAN_ID}-00` });

  t.is(response.status, 200);
  await eventually(() => named(spans, "call stripe") !== undefined);
  await eventually(() => named(spans, "send usage") !== undefined);
  await eventually(() => named(spans, "POST /plant/trees") !== undefined);
  const request = named(spans, "POST /plant/trees");
  t.is(request?.traceId, TRACE_ID);
  t.is(request?.parentSpanId, CLIENT_SPAN_ID);
  t.is(request?.service, "impact-api");
  t.is(request?.attributes["http.response.status_code"], 200);
  const batch = named(spans, "write batch");
  t.deepEqual(batch && pathTo(spans, batch), ["POST /plant/trees", "write batch"]);
  const call = named(spans, "call stripe");
  t.deepEqual(call && pathTo(spans, call), ["send usage", "call stripe"]);
  t.is(call?.service, "impact-worker");
  t.false(spans.some(({ traceId }) => traceId === unsampled));
});

test("a batch of several requests has links to them, and they to it", async (t) => {
  const { spans, post } = await deploy(t);

  await Promise.all(
    Array.from({ length: 30 }, (_, index) =>
      post(
        "/plant/trees",
        { count: 1 },
        { traceparent: `00-${traceOf(index)}-${CLIENT_SPAN_ID}-01` },
      ),
    ),
  );

  const requests = (): readonly ReceivedSpan[] =>
    spans.filter(({ name }) => name === "POST /plant/trees");
  await eventually(() => requests().length === 30);
  await eventually(() =>
    spans.some(({ name, links }) => name === "write batch" && links.length > 1),
  );
  const batch = spans.find(({ name, links }) => name === "write batch" && links.length > 1);
  t.is(batch?.parentSpanId, "");
  t.is(batch?.attributes["impact.batch.size"], batch?.links.length);
  const linked = requests().filter(({ spanId }) =>
    batch?.links.some((link) => link.spanId === spanId),
  );
  t.is(batch?.links.length, linked.length);
  t.true(linked.every(({ links }) => links.some(({ spanId }) => spanId === batch?.spanId)));
});

test("a donation's trace leads through its workflow to the charity provider", async (t) => {
  const provider = await startProviderDouble(t);
  const { spans, post, startWorker, organization } = await deploy(t, {
    EVERYORG_API_KEY: "everyorg-key",
    CHARITY_API_BASE: provider.url,
    // Usage of the tests before is another Stripe's.
    LOG_LEVEL: "silent",
  });
  await updateAccount(t.context.db, organization.id, { charityProvider: "everyorg" });
  const ein = freshEin();
  addEveryOrgCharity(provider, "remote", ein);
  await startWorker();
  const donate = (): Promise<Response> =>
    post(
      "/charities/donate",
      { amount_cents: 500, ein, idempotency_key: "k" },
      { Authorization: organization.apiKeyTest, traceparent: TRACEPARENT },
    );

  // The worker bundles its workflows first. A 500 has recorded nothing and may be repeated.
  while ((await donate()).status === 500) {
    t.log("repeated");
  }

  // Spans arrive in any order: the request may end before its workflow, and a repeated one has a trace of its own.
  const findPath = () =>
    spans
      .filter(({ name }) => name === "validate charity")
      .map((validation) => pathTo(spans, validation))
      .find((path) => path.length === 3);
  await eventually(() => findPath() !== undefined);
  t.deepEqual(findPath(), ["POST /charities/donate", "run workflow donation", "validate charity"]);
});

test("spans contain no key, and nothing that the client sent", async (t) => {
  const { spans, post, key } = await deploy(t);
  const body = {
    count: 654_321,
    attribution: "secret-attribution",
    metadata: { email: "ann@example.com" },
    idempotency_key: "secret-idempotency-key",
  };

  await post("/plant/trees?utm_source=secret-query", body);
  await post("/plant/trees?attribution_key=secret-query", { count: 0 });
  await post("/plant/trees", { ...body, count: 1 }, { Authorization: `${key}x` });

  await eventually(() => spans.filter(({ name }) => name === "POST /plant/trees").length === 3);
  await eventually(() => named(spans, "write batch") !== undefined);
  const text = JSON.stringify(spans);
  t.notRegex(text, /secret-|ann@|654321/u);
  t.false(text.includes(key));
});

const logLine = z.looseObject({
  msg: z.string().optional(),
  trace_id: z.string().optional(),
  span_id: z.string().optional(),
});

/** Starts an API process, sends it a request, and returns the line about the request in its log. */
const readRequestLine = async (t: DatabaseTest, settings: Readonly<Record<string, string>>) => {
  const { urls, lines } = await startProgram(t, "api/main.ts", {
    DATABASE_URL: t.context.databaseUrl,
    LOG_FORMAT: "json",
    LOG_LEVEL: "info",
    ...settings,
  });
  await fetch(`${urls["standalone"]}/dashboard_url`, { headers: { traceparent: TRACEPARENT } });
  const find = () =>
    lines.map((line) => logLine.parse(JSON.parse(line))).find(({ msg }) => msg === "request");
  await eventually(() => find() !== undefined);
  return find();
};

test("log lines have the ids of the trace and the span, if tracing is on", async (t) => {
  const { url, spans } = await startCollector(t);

  const on = await readRequestLine(t, {
    OTEL_EXPORTER_OTLP_ENDPOINT: url,
    OTEL_BSP_SCHEDULE_DELAY: "50",
  });
  const off = await readRequestLine(t, {});

  await eventually(() => named(spans, "GET /dashboard_url") !== undefined);
  t.is(on?.trace_id, TRACE_ID);
  t.is(named(spans, "GET /dashboard_url")?.spanId, on?.span_id ?? "");
  t.is(off?.trace_id, undefined);
});

test("requests do not wait for a collector that does not respond", async (t) => {
  const exports: Duplex[] = [];
  const url = await serveRequests(t, (incoming) => exports.push(incoming.socket));
  const { post } = await deploy(t, {
    OTEL_EXPORTER_OTLP_ENDPOINT: url,
    // Longer than ava waits for a result.
    OTEL_EXPORTER_OTLP_TIMEOUT: "600000",
    LOG_LEVEL: "silent",
  });

  t.is((await post("/plant/trees", { count: 1 })).status, 200);
  await eventually(() => exports.length === 1);
  t.is((await post("/plant/trees", { count: 1 })).status, 200);
  t.is(exports.length, 1);
  t.false(exports[0]?.destroyed);
});

test("a collector that refuses the last spans does not make the API fail", async (t) => {
  const { url } = await startCollector(t);
  const { api, post } = await deploy(t, {
    OTEL_EXPORTER_OTLP_ENDPOINT: `${url}/unknown`,
    OTEL_BSP_SCHEDULE_DELAY: "600000",
  });
  t.is((await post("/plant/trees", { count: 1 })).status, 200);

  api.kill("SIGTERM");

  t.deepEqual(await once(api, "exit"), [0, null]);
});
