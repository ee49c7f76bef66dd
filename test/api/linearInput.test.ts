import { Agent, request } from "node:http";
import type { ExecutionContext } from "ava";
import { z } from "zod";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseTest } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { createTestStore, startStoreApi } from "../stores/startStoreApi.ts";
import { startStandaloneApi } from "./startStandaloneApi.ts";

const test = testWithDatabase();

/*
 * Feeds every path, header, parameter and field of both interfaces texts that make careless parsers slow, and compares
 * the CPU time of a text with that of one four times as long. Linear work takes at most four times as long, quadratic
 * work sixteen times. A text that costs little more than the cheapest request needs no comparison.
 */

const TIMES_LONGER = 4;
/** Between linear and quadratic growth, because short measurements are noisy. */
const MAXIMUM_GROWTH = 8;
/** The fastest of these rounds counts. Only a case that looks slow takes more than one. */
const MAXIMUM_ROUNDS = 15;

/** Node accepts 16 KiB of headers with the URL, and the API bodies of 1 MiB. */
const HEADER_BYTES = 15_000;
const BODY_BYTES = 60_000;

type Message = {
  readonly method: string;
  readonly path: string;
  /** Names and values in turn. */
  readonly headers: readonly string[];
  readonly body: string;
};

/** Builds a request with a hostile part of about this many bytes. */
type Attack = {
  readonly name: string;
  readonly bytes: number;
  readonly build: (bytes: number) => Message;
};

/** Texts whose repetition is the worst case of a common parser. */
const UNITS = ' a0,;="/.-[%'.split("").concat("%20", "a=b;", ";q=0,", "%C3%A9");
const BODY_UNITS = [" ", "a", "0", "-", "[", ".", '{"a":', "\u00E9", "\u{1F600}", "\t"];

/** The final character makes a pattern that ends with a repetition fail after it. */
const fill = (unit: string, bytes: number): string =>
  `${unit.repeat(Math.floor(bytes / Buffer.byteLength(unit)))}x`;

/** Chinese characters of three bytes, all different, which are slow to convert to the ASCII form of a domain. */
const differentCharacters = (bytes: number): string =>
  Array.from({ length: bytes / 3 }, (_, index) =>
    String.fromCodePoint(0x4e_00 + ((index * 7919) % 20_000)),
  ).join("");

const names = (count: number) => Array.from({ length: count }, (_, index) => `n${index}`);

/** JSON texts for a field or a body, for any field whatever its type. */
const JSON_VALUES: Readonly<Record<string, (bytes: number) => string>> = {
  "array of numbers": (bytes) => `[${"0,".repeat(bytes / 2)}0]`,
  "array of objects": (bytes) => `[${"{},".repeat(bytes / 3)}{}]`,
  "nested array": (bytes) => `${"[".repeat(bytes / 2)}${"]".repeat(bytes / 2)}`,
  "nested object": (bytes) => `${'{"a":'.repeat(bytes / 6)}0${"}".repeat(bytes / 6)}`,
  "many names": (bytes) =>
    `{${names(bytes / 10)
      .map((name) => `"${name}":0`)
      .join()}}`,
  "a repeated name": (bytes) => `{${'"a":0,'.repeat(bytes / 6)}"a":0}`,
  "a name like that of the key": (bytes) => `{"${"idempot".repeat(bytes / 7)}":0}`,
  "long number": (bytes) => "1".repeat(bytes),
  "long fraction": (bytes) => `0.${"1".repeat(bytes)}`,
};

const operation = z.object({
  parameters: z
    .array(z.object({ name: z.string(), in: z.string(), schema: z.unknown() }))
    .default([]),
  requestBody: z
    .object({
      content: z.record(z.string(), z.object({ schema: z.record(z.string(), z.unknown()) })),
    })
    .optional(),
});

const description = z.object({
  paths: z.record(z.string(), z.record(z.string(), operation)),
  components: z.object({ schemas: z.record(z.string(), z.unknown()) }),
});

/** Returns the schemas of the fields of an operation's body. */
const fieldsOf = (
  { requestBody }: z.output<typeof operation>,
  schemas: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> => {
  const schema = requestBody?.content["application/json"]?.schema ?? {};
  const reference = z.string().safeParse(schema["$ref"]).data?.split("/").at(-1);
  return z
    .object({ properties: z.record(z.string(), z.unknown()).default({}) })
    .parse(reference === undefined ? schema : schemas[reference]).properties;
};

const metadataQuery = (bytes: number): string => {
  const metadata = Object.fromEntries(names(bytes / 25).map((name) => [name, ""]));
  return `metadata=${encodeURIComponent(JSON.stringify(metadata))}`;
};

const JSON_TYPE = ["Content-Type", "application/json"];

const get = (path: string): Message => ({ method: "GET", path, headers: [], body: "" });

/** @param partOf returns what the message has instead of the original's */
const attackOn = (
  where: Message,
  name: string,
  bytes: number,
  partOf: (bytes: number) => Partial<Message>,
): Attack => ({
  name: `${where.method} ${where.path}: ${name}`,
  bytes,
  build: (length) => ({ ...where, ...partOf(length) }),
});

const attackOnQuery = (where: Message, name: string, query: (bytes: number) => string): Attack =>
  attackOn(where, name, HEADER_BYTES, (bytes) => ({ path: `${where.path}?${query(bytes)}` }));

const parameterAttacks = (where: Message, parameter: string): readonly Attack[] => [
  ...UNITS.map((unit) =>
    attackOnQuery(where, `${parameter} of ${unit}`, (bytes) => {
      const text = fill(unit, bytes);
      const value = unit.startsWith("%") ? text : encodeURIComponent(text);
      return `${parameter}=${value.slice(0, bytes)}`.replace(/%.?$/u, "");
    }),
  ),
  attackOnQuery(where, `repeated ${parameter}`, (bytes) => fill(`${parameter}=&`, bytes)),
];

/** Attacks on the parser of query strings, which all endpoints share. */
const queryAttacks = (path: string): readonly Attack[] => {
  const where = get(path);
  return [
    attackOnQuery(where, "empty pairs", (bytes) => "&".repeat(bytes)),
    attackOnQuery(where, "unknown parameters", (bytes) => names(bytes / 8).join("=&")),
    attackOnQuery(where, "one long name", (bytes) => "a".repeat(bytes)),
    attackOnQuery(where, "metadata of many names", metadataQuery),
    ...parameterAttacks(where, "a"),
  ];
};

/** Attacks on a body, and on all of its fields at the same time, each with an equal part of the bytes. */
const fieldAttacks = (where: Message, fields: readonly string[]): readonly Attack[] => {
  const attack = (name: string, body: (bytes: number) => string): Attack =>
    attackOn(where, name, BODY_BYTES, (bytes) => ({ body: body(bytes) }));
  const inFields = (json: (bytes: number) => string) => (bytes: number) =>
    `{${fields.map((field) => `"${field}":${json(bytes / fields.length)}`).join()}}`;
  return [
    ...Object.entries(JSON_VALUES).flatMap(([name, json]) => [
      attack(`body, ${name}`, json),
      attack(`fields, ${name}`, inFields(json)),
    ]),
    ...BODY_UNITS.map((unit) =>
      attack(
        `fields of ${JSON.stringify(unit)}`,
        inFields((bytes) => JSON.stringify(fill(unit, bytes))),
      ),
    ),
  ];
};

/** The headers that both interfaces, their libraries or Node read. */
const HEADERS =
  "Authorization api_key Idempotency-Key X-Request-Id Content-Type Content-Encoding Planting-Signature X-Forwarded-For X-Unknown";

const PAGE_HEADERS = "Accept Accept-Encoding Cache-Control If-None-Match If-Modified-Since Cookie";

/** Node reads the bytes of a header as Latin-1. */
const HEADER_UNITS = UNITS.concat("\u00C3\u00A9", "\u00E9", "application/json;", "no-cache ");

/** Texts of which the middle part is repeated. */
const REPETITIONS = [
  ['"', ",", ""],
  ['a/b;x="', ";", ""],
  ["application/json", " ", "x"],
  ["application/json;", " ", "="],
  ["application/json;", "a", ""],
  ['application/json;a="', "\\a", ""],
  ["application/json", "; ", "="],
] as const;

const attacksOnHeader = (where: Message, header: string): readonly Attack[] => {
  const attack = (name: string, lines: (bytes: number) => readonly string[]): Attack =>
    attackOn(where, `${header} ${name}`, HEADER_BYTES, (bytes) => ({
      headers: [...where.headers, ...lines(bytes)],
    }));
  return [
    ...HEADER_UNITS.map((unit) =>
      attack(`of ${JSON.stringify(unit)}`, (bytes) => [header, `x${fill(unit, bytes)}`]),
    ),
    attack("of different characters", (bytes) => [
      header,
      Buffer.from(differentCharacters(bytes)).toString("latin1"),
    ]),
    // A parser that looks for the end of a quoted text after each separator, and patterns of media types.
    ...REPETITIONS.map(([start, unit, end]) =>
      attack(`of ${start} and ${unit} repeated`, (bytes) => [
        header,
        start + unit.repeat(bytes / unit.length) + end,
      ]),
    ),
    // Node accepts at most a thousand lines.
    attack("repeated", (bytes) => Array.from({ length: bytes / 25 }, () => [header, "a"]).flat()),
  ];
};

const headerAttacks = (where: Message, headers: string): readonly Attack[] =>
  headers.split(" ").flatMap((header) => attacksOnHeader(where, header));

const pathAttacks = (path: string): readonly Attack[] =>
  [...UNITS.filter((unit) => /^[^ "\\%[]$|^%../u.test(unit)), "a/", "/a", "-a"].map((unit) =>
    attackOn(get(path), `and ${unit}`, HEADER_BYTES, (bytes) => ({
      path: path + fill(unit, bytes),
    })),
  );

/** What no parser reads. The items of a batch are parsed only if there are as few as none of the texts has. */
const UNREAD: ReadonlySet<string> = new Set(["description", "examples", "example", "$ref"]);

/** The schemas of parameters and bodies that have been attacked: what has the same schema has the same parser. */
const attacked = new Set<string>();

const isNew = (...schemas: readonly unknown[]): boolean => {
  const text = JSON.stringify(schemas, (name, part: unknown) =>
    UNREAD.has(name) ? undefined : part,
  );
  const known = attacked.has(text);
  attacked.add(text);
  return !known;
};

const attacksOnOperation = (
  template: string,
  verb: string,
  each: z.output<typeof operation>,
  schemas: Readonly<Record<string, unknown>>,
): readonly Attack[] => {
  const path = template.replaceAll(/\{\w+\}/gu, "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11");
  const where = { ...get(path), method: verb.toUpperCase(), headers: JSON_TYPE };
  const query = each.parameters.filter((parameter) => parameter.in === "query");
  const fields = fieldsOf(each, schemas);
  const beginning = template.replace(/\{.*$/u, "");
  return [
    ...(isNew(query) ? query.flatMap(({ name }) => parameterAttacks(where, name)) : []),
    ...(verb === "post" && isNew(Object.keys(fields), fields)
      ? fieldAttacks(where, Object.keys(fields))
      : []),
    ...(beginning !== template && isNew(beginning) ? pathAttacks(beginning) : []),
  ];
};

const attacksOn = (given: unknown): readonly Attack[] => {
  const { paths, components } = description.parse(given);
  return Object.entries(paths).flatMap(([template, operations]) =>
    Object.entries(operations).flatMap(([verb, each]) =>
      attacksOnOperation(template, verb, each, components.schemas),
    ),
  );
};

const createSender = (t: ExecutionContext, url: string, headers: readonly string[]) => {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  t.teardown(() => agent.destroy());
  /** Returns the status and the CPU time of the whole process in microseconds. */
  return (message: Message): Promise<{ readonly status: number; readonly cpuUs: number }> =>
    new Promise((resolve, reject) => {
      const start = process.cpuUsage();
      const given = new Set(message.headers.filter((_, index) => index % 2 === 0));
      const own = headers.flatMap((name, index) =>
        index % 2 === 0 && !given.has(name) ? [name, headers[index + 1] ?? ""] : [],
      );
      const body = Buffer.from(message.body);
      const sent = request(
        url + message.path,
        {
          agent,
          method: message.method,
          headers: ["Host", "x", "Content-Length", String(body.length), ...own, ...message.headers],
        },
        (response) => {
          response.resume();
          response.on("end", () => {
            const { user, system } = process.cpuUsage(start);
            resolve({ status: response.statusCode ?? 0, cpuUs: user + system });
          });
        },
      );
      sent.on("error", reject);
      sent.end(body);
    });
};

/** Returns the CPU time of the cheapest request, which no text can undercut, in microseconds. */
const measureCheapest = async (send: ReturnType<typeof createSender>): Promise<number> => {
  let cheapestUs = Infinity;
  for (let round = 0; round < 50; round += 1) {
    const { cpuUs } = await send(get("/healthz"));
    cheapestUs = Math.min(cheapestUs, cpuUs);
  }
  return cheapestUs;
};

/** Returns what is wrong with the answers to an attack; null if nothing is. */
const findProblem = async (
  send: ReturnType<typeof createSender>,
  { name, bytes, build }: Attack,
  cheapestUs: number,
): Promise<string | null> => {
  const long = build(bytes);
  const short = build(bytes / TIMES_LONGER);
  let longUs = Infinity;
  let shortUs = cheapestUs;
  for (let round = 1; round <= MAXIMUM_ROUNDS; round += 1) {
    const answer = await send(long);
    // Headers that are too large would be rejected before anything reads them.
    if (answer.status >= 500 || answer.status === 431) {
      return `${name}: ${answer.status}`;
    }
    longUs = Math.min(longUs, answer.cpuUs);
    if (longUs <= MAXIMUM_GROWTH * shortUs) {
      return null;
    }
    const { status, cpuUs } = await send(short);
    if (status >= 500) {
      return `${name}, short: ${status}`;
    }
    shortUs = round === 1 ? cpuUs : Math.min(shortUs, cpuUs);
  }
  return `${name}: ${shortUs} µs, and ${longUs} µs for a text ${TIMES_LONGER} times as long`;
};

const findProblems = async (
  t: DatabaseTest,
  url: string,
  headers: readonly string[],
  attacks: readonly Attack[],
): Promise<readonly string[]> => {
  const send = createSender(t, url, headers);
  // The first requests compile code and open connections.
  for (const { build } of attacks.slice(0, 30)) {
    await send(build(100));
  }
  const cheapestUs = await measureCheapest(send);
  const problems: (string | null)[] = [];
  for (const attack of attacks) {
    problems.push(await findProblem(send, attack, cheapestUs));
  }
  return problems.filter((problem) => problem !== null);
};

const read = async (url: string): Promise<unknown> => (await fetch(`${url}/openapi.json`)).json();

// Serial, because both interfaces are in this process, whose CPU time is measured.
test.serial("the standalone interface parses every input in linear time", async (t) => {
  const plantingCallbackSecrets = ["s".repeat(32)];
  const { url } = await startStandaloneApi(t, { ...t.context, plantingCallbackSecrets });
  const { apiKeyProd } = await createTestOrganization(t.context.db);
  const post = { method: "POST", path: "/plant/trees", headers: JSON_TYPE, body: '{"count":1}' };
  const problems = await findProblems(
    t,
    url,
    ["Authorization", apiKeyProd],
    [
      ...attacksOn(await read(url)),
      ...headerAttacks(post, `${HEADERS} ${PAGE_HEADERS}`),
      // What these read besides the headers of every request.
      ...headerAttacks(
        { ...post, path: "/planting/callback" },
        "Planting-Signature Content-Type Content-Encoding",
      ),
      ...headerAttacks(get("/dashboard/unknown"), PAGE_HEADERS),
      ...queryAttacks("/plant/trees"),
      ...["/", "/docs/", "/plant/trees"].flatMap((path) => attacksOnHeader(get(path), "Accept")),
      ...["/", "/dashboard/", "/docs/", "/media/simulated/", "/plant/trees/"].flatMap(pathAttacks),
    ],
  );
  t.deepEqual(problems, []);
});

test.serial("the store interface parses every input in linear time", async (t) => {
  const { url } = await startStoreApi(t, t.context);
  const { live } = await createTestStore(t.context.db, { balanceCents: 100_000_000 });
  const post = { method: "POST", path: "/app/api/plant", headers: JSON_TYPE, body: '{"trees":1}' };
  const problems = await findProblems(t, url, Object.entries(live).flat(), [
    ...attacksOn(await read(url)),
    // What this interface reads in its own way.
    ...headerAttacks(post, "api_key shop_name user_id Idempotency-Key"),
    ...queryAttacks("/app/api/charity/donations"),
    ...attacksOnHeader(get("/app/api/plant"), "Accept"),
    ...pathAttacks("/"),
  ]);
  t.deepEqual(problems, []);
});
