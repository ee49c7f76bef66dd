import { sql } from "../../../db/sql.ts";
import { registrationsIn } from "../../api/contract.ts";
import { startApiOf } from "../../api/startStandaloneApi.ts";
import { testWithDatabase } from "../../support/database.ts";

const test = testWithDatabase();

const TEXTS = ["", "\\N", "\\", "a\tb\nc\r\u0001\u001E\u2028", 'quoted "text"', "é𝒳", "\u000B\f\b"];

/** In the order in which PostgreSQL stores their keys. */
const METADATA = [
  {},
  { a: { b: null, c: [1.5, -0.25, 1e-7, 1e300, 2 ** 53] }, z: 1 },
  { "\\N": "\\n", é: ["𝒳", true, false], 'a "b"\t': "\\\\" },
];

test("a whole list, a page and NDJSON write a registration as its POST did", async (t) => {
  const { db } = t.context;
  const { url, call, key } = await startApiOf(t);
  const created: unknown[] = [];
  for (const [index, text] of TEXTS.entries()) {
    const { body, status } = await call("POST", "/plant/trees", {
      key,
      body: {
        count: index === 0 ? 9_007_199_254_740 : 1,
        attribution: text,
        idempotency_key: text,
        metadata: METADATA[index % METADATA.length],
      },
    });
    t.is(status, 200);
    created.push(...registrationsIn(body, "tree"));
  }
  // Imports have such times.
  await db.query(sql.typeAlias("void")`
    UPDATE registration SET created_at = date_trunc('milliseconds', created_at) + interval '999 microseconds'
  `);

  const read = async (query: string, accept = "application/json"): Promise<string> => {
    const headers = { Authorization: key, Accept: accept };
    return (await fetch(`${url}/plant/trees${query}`, { headers })).text();
  };
  const whole = await read("");
  const newestFirst = created.toReversed();
  t.true(whole.endsWith(`"tree_details":${JSON.stringify(newestFirst)}}`), whole);
  t.is(await read("?first=100"), whole);
  t.is(
    await read("", "application/x-ndjson"),
    newestFirst.map((registration) => `${JSON.stringify(registration)}\n`).join(""),
  );
});
