import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { systemClock } from "../../domain/clock.ts";
import { getDashboardSlug } from "../../services/dashboard/getDashboardSlug.ts";

const test = testWithDatabase();

const ROUTES = ["", ".json", "/shields.json", "/badge.svg", "/card"];

/** Node adds this header once a second anew. */
const VARIES = new Set(["date", "x-request-id"]);

const readAll = async (url: string, init: RequestInit = {}) => {
  const response = await fetch(url, init);
  return {
    status: response.status,
    requestId: response.headers.get("X-Request-Id") ?? "",
    headers: [...response.headers].filter(([name]) => !VARIES.has(name)),
    body: await response.text(),
  };
};

test("a page is the same from the app, from its cache and from memory, and is logged each time", async (t) => {
  const { db } = t.context;
  const { url, logged } = await startStandaloneApi(t, t.context);
  const { id } = await createTestOrganization(db);
  const page = `${url}/dashboard/${await getDashboardSlug({ db, clock: systemClock }, id)}`;
  for (const suffix of ROUTES) {
    const rendered = await readAll(page + suffix);
    const cached = await readAll(page + suffix);
    const fromMemory = await readAll(page + suffix);

    t.is(rendered.status, 200, suffix);
    t.deepEqual({ ...cached, requestId: "" }, { ...rendered, requestId: "" }, suffix);
    t.deepEqual({ ...fromMemory, requestId: "" }, { ...rendered, requestId: "" }, suffix);
    const lines = [rendered, cached, fromMemory].map(({ requestId }) =>
      logged().filter((line) => line["requestId"] === requestId),
    );
    for (const [line, ...others] of lines) {
      t.deepEqual(others, [], suffix);
      t.like(line, {
        msg: "request",
        method: "GET",
        route: `/dashboard/:slug${suffix}`,
        status: 200,
        clientAddress: "127.0.0.1",
      });
      t.is(typeof line?.["durationMs"], "number");
    }
  }
});

test("a page in memory keeps the client's request id, and HEAD and conditional requests have no body", async (t) => {
  const { db } = t.context;
  const { url } = await startStandaloneApi(t, t.context);
  const { id } = await createTestOrganization(db);
  const page = `${url}/dashboard/${await getDashboardSlug({ db, clock: systemClock }, id)}`;
  await readAll(page);
  await readAll(page);

  const own = await readAll(page, { headers: { "X-Request-Id": "order-17" } });
  t.is(own.requestId, "order-17");
  const etag = new Headers(own.headers).get("ETag") ?? "";
  const known = await readAll(page, {
    // Without the second one, fetch adds `no-cache`.
    headers: { "If-None-Match": etag, "Cache-Control": "max-age=0" },
  });
  t.is(known.status, 304);
  t.is(known.body, "");
  const head = await readAll(page, { method: "HEAD" });
  t.is(head.status, 200);
  t.is(head.body, "");
  t.is((await readAll(`${page}?utm_source=x`)).body, own.body);
  t.is((await readAll(page, { method: "POST" })).status, 405);
});
